"""How clients that were built on the Platform Engineer make an answer of a stream, each after its own rules.

None of them can tell the texts apart but by the names and marks of artifacts, and none forgives: what is shown twice,
or as the answer when it was none, they show so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from a2a.types import StreamResponse
from google.protobuf.json_format import MessageToDict

RESULTS = ("final_result", "partial_result")


class Piece(NamedTuple):
    """One artifact as a client gets it: in an update, or in a Task."""

    id: str
    name: str
    text: str
    data: Any
    about: dict[str, Any]
    append: bool


def pieces(response: StreamResponse) -> Iterator[Piece]:
    """The artifacts of an event."""
    said = MessageToDict(response)
    if update := said.get("artifactUpdate"):
        yield _piece(update["artifact"], update.get("append", False))
    for artifact in said.get("task", {}).get("artifacts", ()):
        yield _piece(artifact, False)


def _piece(artifact: dict[str, Any], append: bool) -> Piece:
    parts = artifact["parts"]
    found = [part["data"] for part in parts if "data" in part]
    text = "".join(part.get("text", "") for part in parts)
    about = artifact.get("metadata", {})
    return Piece(artifact["artifactId"], artifact["name"], text, found[0] if found else None, about, append)


def state(response: StreamResponse) -> str:
    """The state that an event tells, or ``""``."""
    said = MessageToDict(response)
    holder = said.get("statusUpdate") or said.get("task") or {"status": {"state": ""}}
    return str(holder["status"]["state"]).removeprefix("TASK_STATE_")


class Assembler:
    """What all have in common."""

    def __init__(self) -> None:
        self.states: list[str] = []
        self.names: list[str] = []

    def take(self, response: StreamResponse) -> None:
        """Read one event."""
        self.states += [state(response)] if state(response) else []
        for piece in pieces(response):
            self.names.append(piece.name)
            self.piece(piece)

    def piece(self, piece: Piece) -> None:
        raise NotImplementedError

    @property
    def answer(self) -> str:
        raise NotImplementedError


class Web(Assembler):
    """``is_final_answer`` goes into the bubble, other text to the thinking; both are added up by artifact."""

    def __init__(self) -> None:
        super().__init__()
        self.bubble: dict[str, str] = {}
        self.thinking: dict[str, str] = {}
        self.plan: list[Any] = []
        self._result: str | None = None

    def piece(self, piece: Piece) -> None:
        if piece.name == "streaming_result":
            marks = [mark for mark in ("is_final_answer", "is_narration") if piece.about.get(mark)]
            assert len(marks) <= 1
            pane = self.bubble if marks == ["is_final_answer"] else self.thinking
            assert piece.id in pane or not piece.append, "a piece of an artifact that the client has not"
            pane[piece.id] = (pane.get(piece.id, "") if piece.append else "") + piece.text
        elif piece.name in RESULTS:
            self._result = piece.text
        elif piece.name.startswith("execution_plan"):
            self.plan = piece.data["steps"]

    @property
    def answer(self) -> str:
        streamed = "".join(self.bubble.values())
        return streamed or self._result or ""


class Slack(Assembler):
    """Posts what is marked as it comes, and can take nothing back; once something was marked, it skips the result."""

    def __init__(self) -> None:
        super().__init__()
        self.posted: list[str] = []
        self._latched = False
        self._result: dict[str, str] = {}

    def piece(self, piece: Piece) -> None:
        if piece.name == "streaming_result" and piece.about.get("is_final_answer"):
            self._latched = True
            self.posted.append(piece.text)
        elif piece.name in RESULTS:
            self._result[piece.name] = piece.text

    @property
    def answer(self) -> str:
        rest = [] if self._latched else [self._result[name] for name in RESULTS if name in self._result][:1]
        return "".join([*self.posted, *rest])


class Cli(Assembler):
    """Shows the form, or one of the results in this order, or else all text that was streamed."""

    def __init__(self) -> None:
        super().__init__()
        self.form: Any = None
        self._results: dict[str, str] = {}
        self._buffer: list[str] = []

    def piece(self, piece: Piece) -> None:
        if piece.name == "UserInputMetaData":
            self.form = piece.data
        elif piece.name == "streaming_result":
            self._buffer.append(piece.text)
        else:
            self._results[piece.name] = piece.text

    @property
    def answer(self) -> str:
        order = ("partial_result", "complete_result", "final_result")
        found = [self._results[name] for name in order if name in self._results]
        return found[0] if found else "".join(self._buffer) if self.form is None else ""
