"""The tool calls of one answer, put together from fragments in any form. Pure.

A call is told as soon as its name is certain. Names may come in pieces, so that is when its arguments begin, when text
follows it, or at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from ...events import Event, ToolArgsDelta, ToolCallFinished, ToolCallStarted, ToolReturned
from .._dialect import Router, fragment
from ._wire import is_object

LEGACY = "function_call"
"""The form of the only call of an answer before there were tool calls, and its finish reason."""


class Call:
    """One call. ``id`` is what the model named it, until it is told; then it is the local id.

    ``offered``: the client offered the tool, and executes it.
    """

    __slots__ = ("arguments", "id", "message_id", "name", "number", "offered", "returned", "told")

    def __init__(self, number: int, message_id: str) -> None:
        self.id = self.name = ""
        self.number, self.message_id = number, message_id
        self.arguments: list[str] = []
        self.offered = self.told = self.returned = False

    @property
    def is_object(self) -> bool:
        """Whether the arguments are, and are whole. None at all are an empty object."""
        return is_object("".join(self.arguments) or "{}")

    def give_back(self, text: str, failed: bool, out: list[Event]) -> None:
        """End the call with a result of ours."""
        self.returned = True
        error = text if failed else None
        out.append(ToolCallFinished(call_id=self.id))
        out.append(ToolReturned(call_id=self.id, content=text, is_error=failed, error=error))


class Calls:
    """All calls of one answer to a client that offered the tools named ``offered`` (None: whatever is called)."""

    def __init__(self, offered: Iterable[str] | None) -> None:
        self._offered = None if offered is None else frozenset(offered)
        self._all: list[Call] = []
        self._untold: dict[Call, None] = {}
        self._executed: list[Call] = []  # told, not the client's, and not given back
        self._ids: dict[str, int] = {}  # those told, and how many calls each one began as the name of
        self._router = Router(whole=self._is_whole)
        self._legacy = False

    def __bool__(self) -> bool:
        """Whether any call has begun."""
        return bool(self._all)

    @property
    def open(self) -> list[Call]:
        """The calls that have not returned."""
        return [call for call in self._all if not call.returned]

    def executed(self) -> list[Call]:
        """The calls that are not the client's, each once."""
        executed, self._executed = self._executed, []
        return executed

    def pieces(self, fragments: list[Any], legacy: Any) -> list[dict[str, Any]]:
        """What a delta says of calls, in one form. ``legacy`` often repeats the fragments, or those before."""
        if not fragments and isinstance(legacy, dict) and (self._legacy or not self._all):
            self._legacy = True
            return [fragment({"function": legacy}) | {"index": LEGACY}]
        return [fragment(each) for each in fragments if isinstance(each, dict)]

    def take(self, piece: dict[str, Any], message_id: str, out: list[Event]) -> None:
        """Take a piece of a call, which belongs to that message if it begins one."""
        id, name, arguments = piece["id"] or "", piece["function"]["name"] or "", piece["function"]["arguments"]
        # A name alone, without an id, is a piece of one or a repetition.
        position, begins, _ = self._router.route(piece["index"], id, name if id or arguments else None)
        if begins:
            self._all.append(Call(position + 1, message_id))
            self._untold[self._all[position]] = None
        call = self._all[position]
        if not call.told:
            call.id = call.id or id
            call.name += name if name != call.name else ""  # some repeat it, some split it
        if arguments:
            call.arguments.append(arguments)
            if call.told:
                out.append(ToolArgsDelta(call_id=call.id, delta=arguments))
            elif call.name:
                self._tell(call, out)

    def tell(self, out: list[Event]) -> None:
        """Tell the calls that wait for more of their names."""
        for call in list(self._untold):
            self._tell(call, out)

    def _tell(self, call: Call, out: list[Event]) -> None:
        call.told = True
        del self._untold[call]
        call.name = call.name or "unknown"
        call.offered = self._offered is None or call.name in self._offered
        if not call.offered:
            self._executed.append(call)
        known = call.id = call.id or f"call-{call.number}"
        while call.id in self._ids:
            self._ids[known] += 1
            call.id = f"{known}#{self._ids[known]}"
        self._ids[call.id] = 1
        executor: Literal["client", "server"] = "client" if call.offered else "server"
        out.append(ToolCallStarted(call_id=call.id, name=call.name, message_id=call.message_id, executor=executor))
        if call.arguments:
            out.append(ToolArgsDelta(call_id=call.id, delta="".join(call.arguments)))

    def _is_whole(self, position: int) -> bool:
        call = self._all[position]
        last = "".join(call.arguments[-1:]).rstrip()
        # All of them are read only where they may end: some repeat the name with each fragment.
        return bool(call.arguments) and last[-1:] in ("", "}") and call.is_object
