"""What a caller is told who is not let in. Pure.

Messages say what is wrong with a credential and never hold a part of it.
"""

from __future__ import annotations

from ..errors import ClientError


class Unauthorized(ClientError):
    """No credential, or one that does not hold. ``headers`` belong on the response."""

    code = "unauthorized"

    def __init__(self, message: str) -> None:
        super().__init__(message, status=401)
