"""What a refused request is told, in the words of both bindings. Pure.

Each of our error codes is one of A2A's errors (A2A 1.0, section 5.4): a number for JSON-RPC, a status for HTTP, and a
reason that programs match on, with our own code beside it in ``metadata``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...errors import AnabranchError, ClientError
from .payload import error_info

Payload = dict[str, Any]


class _Kind(NamedTuple):
    number: int
    reason: str
    status: int = 400
    grpc: str = "FAILED_PRECONDITION"


_PARAMS = _Kind(-32602, "INVALID_PARAMS", grpc="INVALID_ARGUMENT")
_REQUEST = _Kind(-32600, "INVALID_REQUEST", grpc="INVALID_ARGUMENT")
_UNSUPPORTED = _Kind(-32004, "UNSUPPORTED_OPERATION")
_NOT_FOUND = _Kind(-32001, "TASK_NOT_FOUND", 404, "NOT_FOUND")
_KINDS = {
    "bad_json": _Kind(-32700, "PARSE_ERROR", grpc="INVALID_ARGUMENT"),
    "bad_input": _PARAMS,
    "run_id_taken": _PARAMS,
    "cursor_unknown": _PARAMS,
    "unknown_method": _Kind(-32601, "METHOD_NOT_FOUND", 404, "NOT_FOUND"),
    "not_found": _NOT_FOUND,
    "run_over": _Kind(-32002, "TASK_NOT_CANCELABLE"),
    "push_unsupported": _Kind(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    "unsupported": _UNSUPPORTED,
    "cycle": _UNSUPPORTED,
    "unknown_interrupt": _UNSUPPORTED,
    "unsupported_media_type": _Kind(-32005, "CONTENT_TYPE_NOT_SUPPORTED", 415, "INVALID_ARGUMENT"),
    "no_extended_card": _Kind(-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    "unknown_version": _Kind(-32009, "VERSION_NOT_SUPPORTED"),
    "too_large": _Kind(-32600, "INVALID_REQUEST", 413, "INVALID_ARGUMENT"),
    "thread_busy": _Kind(-32603, "CONTEXT_BUSY", 409, "ABORTED"),
}
_LATER = _Kind(-32603, "UNAVAILABLE", 503, "UNAVAILABLE")
_INTERNAL = _Kind(-32603, "INTERNAL_ERROR", 500, "INTERNAL")
_OF_HTTP = frozenset({413, 415})
"""Also over JSON-RPC, whose errors have the status 200 otherwise: what stands before the server reads these."""


def rpc(error: AnabranchError) -> tuple[Payload, int]:
    """The ``error`` member of a JSON-RPC response, and its HTTP status."""
    kind = _kind(error)
    body = {"code": kind.number, "message": str(error), "data": _info(kind, error)}
    return body, kind.status if kind.status in _OF_HTTP else 200


def rest(error: AnabranchError) -> tuple[Payload, int]:
    """The body of a REST response, and its HTTP status."""
    kind = _kind(error)
    said = {"code": kind.status, "status": kind.grpc, "message": str(error), "details": _info(kind, error)}
    return {"error": said}, kind.status


def _kind(error: AnabranchError) -> _Kind:
    if error.code in _KINDS:
        return _KINDS[error.code]
    if isinstance(error, ClientError):
        return _REQUEST
    return _LATER if error.retryable else _INTERNAL


def _info(kind: _Kind, error: AnabranchError) -> list[Payload]:
    later = {"retryable": "true"} if error.retryable else {}
    return [error_info(kind.reason, code=error.code, **later)]
