"""A RunAgentInput to a ``RunRequest``. Pure, and lenient where clients of different ages differ.

Optional fields may be null or absent, names may be snake_case, and what is not known is ignored: fields, and messages
of unknown roles. Activity and reasoning messages are what a client shows, not what a model reads, and are left out. The
``binary`` part of clients before 1.0 is read as a file. A message that a sub-agent wrote keeps its agent, so that it
can be hidden from the root agent's model.

What is wrong is a ``ClientError``: 400 when the body is not JSON (with line and column), 422 when a field is missing or
of the wrong type (with its path and what to send).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar, cast

import msgspec

from ...encodable import whole
from ...errors import ClientError
from ...events import Part
from ...request import Message, Resume, RunRequest, ToolCall, ToolSpec
from . import wire
from .payload import NAMESPACE
from .profile import PROTOCOL_VERSION, Profile

SUBAGENTS_HEADER = "x-anabranch-subagents"
"""Asks for a way of telling sub-agents, ``native`` or ``steps``; so does the query parameter ``subagents``."""

ID_LIMIT = 256
"""Characters a run or thread id may have."""

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_NESTED = frozenset({"messages", "content", "source", "toolCalls", "resume"})
_SPELLINGS = (
    "threadId runId parentRunId protocolVersion forwardedProps interruptId toolCalls toolCallId subagentRunId mimeType"
)
_CAMEL = {re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name): name for name in _SPELLINGS.split()}

_T = TypeVar("_T")


def parse(
    body: bytes, headers: Mapping[str, str] | None = None, query: Mapping[str, str] | None = None
) -> tuple[RunRequest, Profile]:
    """The run that a POST asks for, and what its client can read. Raises ``ClientError``."""
    try:
        raw = _spelled(_decode(body))
        given = _convert(raw, wire.Input, "$")
        request = RunRequest(
            run_id=_id(given.run_id, "runId"),
            thread_id=_id(given.thread_id, "threadId"),
            parent_run_id=None if given.parent_run_id is None else _id(given.parent_run_id, "parentRunId"),
            messages=tuple(_messages(given.messages or ())),
            tools=tuple(
                ToolSpec(name=t.name, description=t.description or "", parameters=t.parameters)
                for t in given.tools or ()
            ),
            state=given.state,
            context=tuple(given.context or ()),
            resume=tuple(
                Resume(interrupt_id=r.interrupt_id, status=r.status, payload=r.payload) for r in given.resume or ()
            ),
            options=given.forwarded_props,
        )
        return request, _negotiated(given.protocol_version, headers or {}, query or {})
    except RecursionError:
        raise ClientError("the body is nested too deeply", code="bad_json") from None
    except ValueError:  # a converter's; what is refused on purpose is a ClientError already
        raise ClientError("the body holds a number that is too long to be read", code="bad_json") from None


def readable(headers: Mapping[str, str], query: Mapping[str, str], dialect: str) -> Profile:
    """What a client can read that attaches: what it says, else what whoever started the run could, its ``dialect``.

    Raises ``ClientError``.
    """
    if "protocolVersion" in query:
        return _negotiated(query["protocolVersion"], headers, query)
    known = Profile.of(dialect)
    asked = query.get("subagents") or headers.get(SUBAGENTS_HEADER)
    return Profile.negotiate(PROTOCOL_VERSION if known.modern else None, asked or known.subagents)


def _negotiated(version: str | None, headers: Mapping[str, str], query: Mapping[str, str]) -> Profile:
    return Profile.negotiate(version, query.get("subagents") or headers.get(SUBAGENTS_HEADER))


# --- JSON ------------------------------------------------------------------------------------------------------------


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        pass
    try:
        # Slower, but it says where the error is, and takes a lone half of a surrogate pair (text that a page cut inside
        # an emoji): that becomes U+FFFD.
        return msgspec.json.decode(whole(json.dumps(json.loads(body), ensure_ascii=False)))
    except json.JSONDecodeError as error:
        raise ClientError(
            f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}", code="bad_json"
        ) from None
    except UnicodeDecodeError as error:
        raise ClientError(f"the body is not UTF-8: see byte {error.start}", code="bad_json") from None
    except msgspec.DecodeError:
        raise ClientError("the body is not JSON: NaN and Infinity are not JSON numbers", code="bad_json") from None


def _spelled(raw: Any) -> Any:
    """``raw`` with the names of our fields in camelCase; camelCase wins when both are there."""
    if isinstance(raw, list):
        return [_spelled(item) for item in raw]
    if not isinstance(raw, dict):
        return raw
    out: dict[str, Any] = {}
    for key, value in raw.items():
        name = _CAMEL.get(key, str(key))
        if name == key or name not in raw:
            out[name] = _spelled(value) if name in _NESTED else value
    return out


def _convert(raw: Any, kind: type[_T], path: str) -> _T:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        flaw, _, within = str(error).partition(" - at `$")
        _refuse(path + within.rstrip("`"), flaw[:1].lower() + flaw[1:].replace("`", ""))


def _refuse(path: str, flaw: str) -> NoReturn:
    raise ClientError(f"{path} cannot be used: {flaw}", code="bad_input", status=422)


def _id(value: Any, field: str) -> str:
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= ID_LIMIT
        or not value.isprintable()
        or value != value.strip()
    ):
        said = "it is missing" if value is None else f"it is {json.dumps(value)[:60]}"
        _refuse(f"$.{field}", f"{said}; send a string of 1 to {ID_LIMIT} printable characters")
    return value


# --- messages --------------------------------------------------------------------------------------------------------


def _messages(raw: Iterable[dict[str, Any]]) -> Iterator[Message]:
    for number, message in enumerate(raw):
        path, role = f"$.messages[{number}]", message.get("role")
        if not isinstance(role, str):
            _refuse(f"{path}.role", "send one of " + ", ".join(sorted(_ROLES)))
        if role in _ROLES:
            yield _message(message, path)


def _message(raw: dict[str, Any], path: str) -> Message:
    given = _convert(raw, wire.Message, path)
    if given.role == "tool" and not given.tool_call_id:
        _refuse(f"{path}.toolCallId", "it is missing; send the id of the tool call that this message answers")
    if given.role != "assistant" and given.content is None:
        _refuse(f"{path}.content", "it is missing; send a string or a list of content parts")
    text = given.content if isinstance(given.content, str) else ""
    parts = given.content if isinstance(given.content, list) else ()
    return Message(
        id=given.id,
        role=cast(Any, given.role),
        content=text,
        parts=tuple(_part(part, f"{path}.content[{number}]") for number, part in enumerate(parts)),
        name=given.name,
        tool_calls=tuple(
            ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
            for call in given.tool_calls or ()
        ),
        tool_call_id=given.tool_call_id,
        error=_error(given, text),
        agent=_agent(given),
    )


def _ours(metadata: dict[str, Any] | None) -> dict[str, Any]:
    """What the encoder noted on a message that the client now sends back."""
    noted = (metadata or {}).get(NAMESPACE)
    return noted if isinstance(noted, dict) else {}


def _error(given: wire.Message, text: str) -> str | None:
    noted = _ours(given.metadata)
    if given.error is not None or not noted.get("isError"):
        return given.error
    error = noted.get("error")
    return error if isinstance(error, str) else text


def _agent(given: wire.Message) -> str:
    """Who wrote the message: a client that knows sub-agents says so, and an older one sends our note back."""
    notes = [_ours(given.metadata), *(_ours(call.metadata) for call in given.tool_calls or ())]
    named = [given.subagent_run_id, *(noted.get("agent") for noted in notes)]
    return next((agent for agent in named if agent and isinstance(agent, str)), "")


def _part(given: wire.Part, path: str) -> Part:
    if isinstance(given, wire.Text):
        return Part(kind="text", text=given.text)
    if isinstance(given, wire.Binary):
        return _binary(given, path)
    source = given.source
    # The kind of a medium is known even where its exact type is not.
    mime_type = source.mime_type or ("" if isinstance(given, wire.Document) else f"{given.__struct_config__.tag}/*")
    kept = given.metadata if isinstance(given.metadata, dict) else {}
    name = kept.get("filename")
    file: dict[str, Any] = {"mime_type": mime_type, "name": name if isinstance(name, str) else ""}
    if source.type == "file":
        return Part(kind="file", data={"file": source.value, "provider": source.provider}, **file)
    if source.type == "url":
        return Part(kind="file", url=source.value, **file)
    if source.mime_type is None:
        _refuse(f"{path}.source.mimeType", "it is missing; inline data needs its type")
    return Part(kind="file", url=_data_url(source.value, mime_type), **file)


def _binary(given: wire.Binary, path: str) -> Part:
    file: dict[str, Any] = {"mime_type": given.mime_type, "name": given.filename or ""}
    if given.url or given.data:
        return Part(kind="file", url=given.url or _data_url(given.data or "", given.mime_type), **file)
    if given.id:
        return Part(kind="file", data={"file": given.id, "provider": None}, **file)
    _refuse(path, "a binary part needs one of url, data and id")


def _data_url(data: str, mime_type: str) -> str:
    return f"data:{mime_type};base64,{data}"
