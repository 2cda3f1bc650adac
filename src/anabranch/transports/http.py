"""Reading a request and answering an error, the same way on every route."""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

from ..errors import AnabranchError, ClientError

BODY_LIMIT = 8 * 2**20
"""Bytes a request body may have, unless the server says otherwise."""

_STATUS = {"client": 400, "server": 503, "source": 502}


async def json_body(request: Request, limit: int = BODY_LIMIT) -> bytes:
    """The body of a JSON request.

    Raises ``ClientError``: 415 for another content type, 413 for more than ``limit`` bytes, 400 for one that was cut.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise ClientError(
            f"content type {kind or 'missing'!r}: send application/json", code="unsupported_media_type", status=415
        )
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise ClientError(f"the body has more than {limit} bytes", code="too_large", status=413)
    except ClientDisconnect:
        raise ClientError("the client left before its request was complete", code="disconnected") from None
    return bytes(body)


def error_response(error: AnabranchError) -> JSONResponse:
    """``error`` as JSON: ``{"error": {"code", "message"}}`` under its HTTP status."""
    status = error.status if isinstance(error, ClientError) else _STATUS[error.side]
    headers = dict(error.headers) if isinstance(error, ClientError) else {}
    headers |= {"retry-after": "5"} if error.retryable else {}
    return JSONResponse({"error": {"code": error.code, "message": str(error)}}, status_code=status, headers=headers)
