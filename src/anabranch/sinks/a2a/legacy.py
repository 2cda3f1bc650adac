"""A2A 0.3, from and to 1.0. Pure.

0.3 has two dialects: its JSON-RPC bodies (``kind``, lower-case states and roles), and its REST bodies, which are its
protocol buffers as JSON and closer to 1.0. Of what a client sends, only the shape is changed: what is wrong with it is
for the reader of 1.0 to find.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from .wire import AGENT, CANCELED, INTERRUPTED, TERMINAL, USER

Payload = dict[str, Any]

METHODS = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigs",
    "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
    "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
}
"""The methods of 0.3 and what they are called in 1.0."""

STREAMS = frozenset({"message/stream", "tasks/resubscribe"})
"""Those of 0.3 that are answered by a stream."""

_ROLES = {USER: "user", AGENT: "agent"}
_CONTENTS = ("text", "file", "data")
_NOT_AN_OBJECT = "data_part_compat"
"""How the official SDKs mark data that 0.3 has no place for: in the metadata of a part with it as ``value``."""

# --- what is written, as JSON-RPC bodies -----------------------------------------------------------------------------


def event(said: Payload) -> Payload:
    """A ``StreamResponse`` or ``SendMessageResponse`` of 1.0: its one member, with its ``kind``."""
    [(kind, body)] = said.items()
    return _EVENTS[kind](body)


def task(said: Payload) -> Payload:
    """A ``Task`` of 1.0."""
    out: Payload = {"kind": "task"} | said | {"status": _status(said["status"])}
    if "artifacts" in said:
        out["artifacts"] = [_artifact(artifact) for artifact in said["artifacts"]]
    if "history" in said:
        out["history"] = [message(past) for past in said["history"]]
    return out


def message(said: Payload) -> Payload:
    """A ``Message`` of 1.0."""
    return {"kind": "message"} | said | {"role": _ROLES[said["role"]], "parts": [_part(part) for part in said["parts"]]}


def _status_update(said: Payload) -> Payload:
    return {"kind": "status-update"} | said | {"status": _status(said["status"]), "final": _is_final(said)}


def _artifact_update(said: Payload) -> Payload:
    # A known page takes an absent ``append`` for true.
    head = {"kind": "artifact-update", "append": False}
    return head | said | {"artifact": _artifact(said["artifact"])}


_EVENTS = {"task": task, "message": message, "statusUpdate": _status_update, "artifactUpdate": _artifact_update}


def _is_final(said: Payload) -> bool:
    return said["status"]["state"] in TERMINAL | INTERRUPTED


def _status(said: Payload) -> Payload:
    out = said | {"state": said["state"].removeprefix("TASK_STATE_").lower().replace("_", "-")}
    return out | {"message": message(said["message"])} if "message" in said else out


def _artifact(said: Payload) -> Payload:
    return said | {"parts": [_part(part) for part in said["parts"]]}


def _part(said: Payload) -> Payload:
    metadata = {"metadata": said["metadata"]} if "metadata" in said else {}
    if "text" in said:
        return {"kind": "text", "text": said["text"]} | metadata
    if "data" in said:
        return {"kind": "data"} | _object(said["data"], metadata)
    place = {"uri": said["url"]} if "url" in said else {"bytes": said["raw"]}
    return {"kind": "file", "file": place | _naming(said)} | metadata


def _object(data: Any, metadata: Payload) -> Payload:
    if isinstance(data, dict):
        return {"data": data} | metadata
    return {"data": {"value": data}, "metadata": metadata.get("metadata", {}) | {_NOT_AN_OBJECT: True}}


def _naming(said: Payload) -> Payload:
    named = {"mimeType": said.get("mediaType"), "name": said.get("filename")}
    return {field: value for field, value in named.items() if value}


# --- what is written, as REST bodies ---------------------------------------------------------------------------------


def rest_event(said: Payload) -> Payload:
    """A ``StreamResponse`` or ``SendMessageResponse`` of 1.0."""
    [(kind, body)] = said.items()
    return {kind: _REST_EVENTS[kind](body)}


def rest_task(said: Payload) -> Payload:
    """A ``Task`` of 1.0."""
    out = said | {"status": _rest_status(said["status"])}
    if "artifacts" in said:
        out["artifacts"] = [_rest_artifact(artifact) for artifact in said["artifacts"]]
    if "history" in said:
        out["history"] = [_rest_message(past) for past in said["history"]]
    return out


def _rest_message(said: Payload) -> Payload:
    out = {field: value for field, value in said.items() if field != "parts"}
    return out | {"content": [_rest_part(part) for part in said["parts"]]}


def _rest_status_update(said: Payload) -> Payload:
    return said | {"status": _rest_status(said["status"]), "final": _is_final(said)}


def _rest_artifact_update(said: Payload) -> Payload:
    return said | {"artifact": _rest_artifact(said["artifact"])}


_REST_EVENTS = {
    "task": rest_task,
    "message": _rest_message,
    "statusUpdate": _rest_status_update,
    "artifactUpdate": _rest_artifact_update,
}


def _rest_status(said: Payload) -> Payload:
    out = said | {"state": "TASK_STATE_CANCELLED"} if said["state"] == CANCELED else said
    return out | {"message": _rest_message(said["message"])} if "message" in said else out


def _rest_artifact(said: Payload) -> Payload:
    return said | {"parts": [_rest_part(part) for part in said["parts"]]}


def _rest_part(said: Payload) -> Payload:
    metadata = {"metadata": said["metadata"]} if "metadata" in said else {}
    if "text" in said:
        return {"text": said["text"]} | metadata
    if "data" in said:
        wrapped = _object(said["data"], metadata)
        return wrapped | {"data": {"data": wrapped["data"]}}
    # Official clients disagree about ``fileWithBytes`` (see ``_bytes``), so bytes are written as an address.
    url = said["url"] if "url" in said else f"data:{said.get('mediaType', '')};base64,{said['raw']}"
    return {"file": {"fileWithUri": url} | _naming(said)} | metadata


# --- what is read ----------------------------------------------------------------------------------------------------


def params(said: Any) -> Any:
    """The ``params`` of a JSON-RPC request as those of the 1.0 method."""
    if not isinstance(said, dict):
        return said
    out = dict(said)
    if not out.get("historyLength"):
        out.pop("historyLength", None)  # in 0.3, none and all are the same
    if "id" not in said and "taskId" in said:
        out["id"] = out.pop("taskId")  # a known page calls it so when it cancels
    if isinstance(given := said.get("message"), dict):
        out["message"] = _given(given, "parts")
    if isinstance(wanted := said.get("configuration"), dict):
        out["configuration"] = _wanted(wanted, wanted.get("blocking"))
    return out


def rest_params(said: Any) -> Any:
    """The body of a REST ``message:send`` or ``message:stream`` as parameters of SendMessage."""
    if not isinstance(said, dict):
        return said
    out = dict(said)
    if isinstance(given := said.get("message"), dict):
        out["message"] = _given(given, "content")
    if isinstance(wanted := said.get("configuration"), dict):
        out["configuration"] = _wanted(wanted, wanted.get("blocking") or False)  # protocol buffers leave a false out
    return out


def _wanted(said: Payload, blocking: Any) -> Payload:
    fields = {
        "acceptedOutputModes": said.get("acceptedOutputModes"),
        "historyLength": said.get("historyLength") or None,
        "returnImmediately": not blocking if isinstance(blocking, bool) else blocking,
        "taskPushNotificationConfig": said.get("pushNotificationConfig") or said.get("pushNotification"),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _given(said: Payload, parts: str) -> Payload:
    out = {field: value for field, value in said.items() if field not in ("kind", parts)}
    role = said.get("role")
    out["role"] = {"user": USER, "agent": AGENT}.get(role, role) if isinstance(role, str) else role
    content = said.get(parts)
    out["parts"] = [_given_part(part, parts == "content") for part in content] if isinstance(content, list) else content
    return out


def _given_part(said: Any, wrapped: bool) -> Any:
    if not isinstance(said, dict):
        return said
    kind = said.get("kind") or said.get("type")
    found = [kind] if kind in _CONTENTS else [name for name in _CONTENTS if said.get(name) is not None]
    if len(found) > 1:
        return {}  # as good as none: which of them is meant
    said = {field: said[field] for field in (*found, "metadata") if field in said}
    metadata = {"metadata": said["metadata"]} if said.get("metadata") is not None else {}
    if isinstance(file := said.get("file"), dict):
        names = ("url", "uri"), ("url", "fileWithUri"), ("raw", "bytes")
        place = {ours: file[theirs] for ours, theirs in names if file.get(theirs) is not None}
        if isinstance(data := file.get("fileWithBytes"), str):
            place["raw"] = _bytes(data)
        named = {"mediaType": file.get("mimeType"), "filename": file.get("name")}
        return place | {field: value for field, value in named.items() if value} | metadata
    if not isinstance(data := said.get("data"), dict):
        return {field: said[field] for field in found if field in said} | metadata
    if wrapped:
        data = data.get("data")
    if isinstance(data, dict) and isinstance(notes := said.get("metadata"), dict) and notes.get(_NOT_AN_OBJECT):
        return {"data": data.get("value"), "metadata": {key: notes[key] for key in notes if key != _NOT_AN_OBJECT}}
    return {"data": data} | metadata


def _bytes(data: str) -> str:
    """The base64 of a file in a REST body: the official client in Python encodes it twice, in JavaScript once."""
    try:
        inner = base64.b64decode(data, validate=True)
    except ValueError:
        return data
    return inner.decode() if _BASE64.fullmatch(inner) else data


_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
