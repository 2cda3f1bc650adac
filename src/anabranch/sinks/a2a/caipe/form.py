"""What an agent asks as the form of these clients, and what they answer as the answers to it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ....events import Interrupted
from ....request import Message
from ..checks import bad

_LINE = re.compile(r"\s*([^:\n]+?)\s*:[ \t]*(.*?)\s*")
_YES, _NO = frozenset({"yes", "y", "true", "1", "approve", "accept"}), frozenset({"no", "n", "false", "0", "reject"})
_DECISION = "decision"


class _Field(NamedTuple):
    name: str
    question: str
    key: str | None
    """The property of the answer that it is; None: the whole answer."""
    schema: Mapping[str, Any]


def form(asked: Sequence[Interrupted]) -> dict[str, Any]:
    """The data of a ``UserInputMetaData`` artifact that asks all of it."""
    said = "\n\n".join(question.message or question.reason for question in asked)
    return {
        "user_input": True,
        "input_title": "Input required",
        "input_description": said,
        "input_fields": [_shown(field) for field in _fields(asked)],
        "response": said,
    }


def answers(message: Message, asked: Sequence[Interrupted]) -> dict[str, Any]:
    """The answer to each question that ``message`` gives, by its id. Raises ``ClientError`` when it answers not all.

    These clients send decisions as data, the values of fields as data, lines ``field: value``, or just a text.
    """
    data = next((part.data for part in message.parts if part.kind == "json"), None)
    if isinstance(data, dict) and "resume" in data:
        return _decided(data["resume"], asked)
    fields = _fields(asked)
    text = message.content or "".join(part.text for part in message.parts)
    values = _known(data, fields) if isinstance(data, dict) else _lines(text, fields) if data is None else None
    if values is not None:
        return {question.interrupt_id: _filled(question, fields, values) for question in asked}
    if data is None and len(fields) == 1:
        return {asked[0].interrupt_id: _filled(asked[0], fields, {fields[0].name: _unsigned(text)})}
    return dict.fromkeys((question.interrupt_id for question in asked), _unsigned(text) if data is None else data)


def _fields(asked: Sequence[Interrupted]) -> list[_Field]:
    found: list[_Field] = []
    for question in asked:
        schema = question.schema if isinstance(question.schema, dict) else {}
        properties = schema.get("properties")
        if _requests(question):
            wanted: dict[str | None, Any] = {None: {"enum": ["approve", "reject"]}}
        else:
            wanted = {**properties} if isinstance(properties, dict) and properties else {None: schema}
        for key, inner in wanted.items():
            name = key or (_DECISION if _requests(question) else "answer")
            taken = sum(field.name == name or field.name.startswith(f"{name}_") for field in found)
            inner = inner if isinstance(inner, dict) else {}
            inner = {"description": question.message or question.reason} | inner if key is None else inner
            found.append(_Field(f"{name}_{taken + 1}" if taken else name, question.interrupt_id, key, inner))
    return found


def _shown(field: _Field) -> dict[str, Any]:
    values = field.schema.get("enum")
    if values is None and field.schema.get("type") == "boolean":
        values = ["yes", "no"]
    said = field.schema.get("description") or field.schema.get("title") or field.name
    return {"field_name": field.name, "field_description": said, "field_values": values}


def _requests(question: Interrupted) -> list[Any]:
    """The tool calls that wait for a decision."""
    value = (question.metadata or {}).get("value")
    found = value.get("action_requests") if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


# --- what was answered -----------------------------------------------------------------------------------------------


def _known(data: dict[str, Any], fields: Sequence[_Field]) -> dict[str, Any] | None:
    """``data`` by the names of the fields; None when it is something else."""
    names = {field.name.casefold(): field.name for field in fields}
    if not data or any(key.casefold() not in names for key in data):
        return None
    return {names[key.casefold()]: value for key, value in data.items()}


def _lines(text: str, fields: Sequence[_Field]) -> dict[str, Any] | None:
    lines = [line for line in _unsigned(text).splitlines() if line.strip()]
    found = [_LINE.fullmatch(line) for line in lines]
    return _known({each[1]: each[2] for each in found if each}, fields) if all(found) else None


def _unsigned(text: str) -> str:
    """``text`` without the line by which these clients say who writes; who does is known by the credentials."""
    return re.sub(r"\Aby user: \S+@\S+\s*?(?:\n|\Z)\s*", "", text)


def _filled(question: Interrupted, fields: Sequence[_Field], values: Mapping[str, Any]) -> Any:
    own = [field for field in fields if field.question == question.interrupt_id]
    given = {field.key: _cast(values[field.name], field.schema) for field in own if field.name in values}
    if None not in (field.key for field in own):
        return given
    if not given:
        bad("message.parts", f"{own[0].name} is not answered; send a line for it, too: `{own[0].name}: ...`")
    if requests := _requests(question):
        return {"decisions": [{"type": given[None]}] * len(requests)}
    return given[None]


def _cast(value: Any, schema: Mapping[str, Any]) -> Any:
    """A text as the schema wants it, as far as it can be; what cannot is for the agent to judge."""
    if not isinstance(value, str):
        return value
    kind = schema.get("type")
    if kind == "boolean" and value.strip().casefold() in _YES | _NO:
        return value.strip().casefold() in _YES
    if kind in ("integer", "number", "array", "object"):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            return [item.strip() for item in value.split(",")] if kind == "array" else value
    return value


def _decided(resume: Any, asked: Sequence[Interrupted]) -> dict[str, Any]:
    decisions = resume.get("decisions") if isinstance(resume, dict) else None
    if not isinstance(decisions, list) or not all(isinstance(said, dict) and "type" in said for said in decisions):
        bad("resume", 'send {"decisions": [{"type": "approve"}]}, a decision for each that is asked')
    wanted = [len(_requests(question)) or 1 for question in asked]
    if len(decisions) == 1:
        decisions *= sum(wanted)
    if len(decisions) != sum(wanted):
        bad("resume.decisions", f"there are {len(decisions)}; send {sum(wanted)}, or one for all")
    out: dict[str, Any] = {}
    for question, count in zip(asked, wanted, strict=True):
        own, decisions = decisions[:count], decisions[count:]
        approves = bool(_requests(question))
        out[question.interrupt_id] = (
            {"decisions": [_decision(said) for said in own]} if approves else _reply(question, own[0])
        )
    return out


def _decision(said: dict[str, Any]) -> dict[str, Any]:
    """A decision in the words of LangChain."""
    kind, args = said["type"], said.get("args")
    if kind == "accept":
        return {**said, "type": "approve"}
    if kind == "edit" and isinstance(args, dict) and "action" in args and "edited_action" not in said:
        return {"type": "edit", "edited_action": {"name": args["action"], "args": args.get("args", {})}}
    return said


def _reply(question: Interrupted, said: dict[str, Any]) -> Any:
    """A decision as the answer to a question that is about something else than tool calls."""
    schema = question.schema if isinstance(question.schema, dict) else {}
    content = next((said[key] for key in ("args", "response", "message") if said.get(key) is not None), None)
    return _cast(said["type"] if content is None else content, schema)
