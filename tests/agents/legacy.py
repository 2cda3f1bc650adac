"""What A2A 1.0 says, in the words of 0.3."""

from typing import Any

Json = dict[str, Any]

KINDS = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
}
METHODS = {
    "message/stream": "SendStreamingMessage",
    "message/send": "SendMessage",
    "tasks/get": "GetTask",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
}
ENDS = ("completed", "failed", "rejected", "canceled", "input-required", "auth-required")


def older(result: Json) -> Json:
    """A ``StreamResponse`` as 0.3 writes it."""
    [(kind, body)] = result.items()
    said = _value(body)
    assert isinstance(said, dict)
    if kind == "statusUpdate":
        said["final"] = said["status"]["state"] in ENDS
    return said | {"kind": KINDS[kind]}


def _value(value: Any, name: str = "") -> Any:
    if isinstance(value, list):
        return [
            _part(each) if name == "parts" else _value(each, "message" if name == "history" else "") for each in value
        ]
    if not isinstance(value, dict) or name in ("data", "metadata"):
        if name == "state":
            return str(value).removeprefix("TASK_STATE_").lower().replace("_", "-")
        return str(value).removeprefix("ROLE_").lower() if name == "role" else value
    said = {key: _value(each, key) for key, each in value.items()}
    return said | ({"kind": "message"} if name == "message" else {})


def _part(part: Json) -> Json:
    if part.get("text") is not None:
        return {"kind": "text", "text": part["text"]}
    if "data" in part:
        return {"kind": "data", "data": part["data"]}
    names = {"url": "uri", "raw": "bytes", "filename": "name", "mediaType": "mimeType"}
    return {"kind": "file", "file": {new: part[old] for old, new in names.items() if old in part}}
