"""Where a request belongs in its thread: the server's history, and what the client's copy of it means. Pure.

A thread is a tree of runs. Each run follows another one (``parent``), up to one of its messages (``upto``), and adds
the messages it was given and those it wrote. A path from the first run to any other is a conversation; a *branch* is a
line of runs in which each follows the whole of the one before it.

Clients send their copy of the conversation with what is new in it. The server's history is authoritative and messages
are recognised by id. The copy is one of the newest path that has the last known message in it.

| the client sends | it means |
|---|---|
| nothing that is known | news: all of it is given, after the newest run |
| known messages, then unknown ones | news; what the copy lacks of the beginning, or of answers, is not lost |
| the same, and a user's message after the known ones is missing | it went back there: a fork |
| known messages, nothing new, and the answer after them is missing | to answer again: a fork |
| a message of a user, or a result of a client's tool, with other content | an edit: a fork before it |
| an unknown message of a user between known ones | an edit: a fork there |
| an unknown message of a user before all known ones | news: what it says is not lost, and the history stays |
| an answer, or a beginning of it | ours, which is whole; with any other text it is an edit |
| an unknown answer or tool result before the last known message | nothing, except the result of an open call: news |
| a result for a call that has one | nothing, unless ours only stood in for the client's |
| a message without an id | news, each time |
| a void message, an id again, a system or developer message | nothing: it is no part of the thread |

After an edit, everything that the client still has is given again, ours where it is no edit itself. Space around a text
is no difference. No fork comes between a message and the results of its calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ..events import Part
from ..request import Message
from ..transcript import Outcome
from ._base import RunRecord
from ._tree import Spot, Tree


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a thread: what it was given beyond its parent's path, and what it left behind (None while it runs)."""

    record: RunRecord
    given: tuple[Message, ...] = ()
    outcome: Outcome | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a new run goes: after ``upto`` of ``parent``; ``forks`` says that it begins a branch of its own.

    ``history`` is the conversation before it, ``given`` what it adds. ``before`` is the run that the thread's newest
    one was when this was found out (None: the thread was empty). A fork's ``branch`` is ``""`` here: its name is the
    key that the new run gets.
    """

    parent: str | None = None
    upto: str = ""
    branch: str = ""
    forks: bool = False
    history: tuple[Message, ...] = ()
    given: tuple[Message, ...] = ()
    before: str | None = None


def place(turns: Sequence[Turn], messages: Sequence[Message]) -> Place:
    """Where a request with ``messages`` belongs among ``turns`` (oldest first). A run that is not over has no place."""
    tree = Tree([turn for turn in turns if turn.outcome is not None])
    copy = tree.recognisable(messages)
    cut = _cut_of_a_path(tree, copy)
    given = _given(tree, cut, copy)
    return replace(
        _after(tree, cut),
        history=tree.told(cut.path[: cut.kept], given),
        given=tuple(given),
        before=turns[-1].record.key if turns else None,
    )


def conversation(turns: Sequence[Turn], key: str | None = None) -> tuple[Message, ...]:
    """The messages on the path to the run ``key`` (default: the newest one), its own included.

    Raises ``KeyError`` when there is no such run.
    """
    tree = Tree(turns)
    run = len(turns) - 1 if key is None else tree.runs[key]
    return tree.told(tree.path(run)) if turns else ()


def contexts(turns: Sequence[Turn], key: str | None) -> dict[str, str]:
    """Where remote agents spoke on the way to the run ``key``, the newest context of each name."""
    runs = {turn.record.key: turn for turn in turns}
    found: dict[str, str] = {}
    while key is not None and (turn := runs.get(key)) is not None:
        found = (turn.outcome.contexts if turn.outcome else {}) | found
        key = turn.record.parent
    return found


# --- the client's copy -----------------------------------------------------------------------------------------------


class _Cut(NamedTuple):
    """What a copy means beside the ``path`` of ``run``: the first ``kept`` messages of it stay.

    From its message number ``start`` on, the copy goes its own way; ``edit`` says that it leaves what is known for it.
    """

    run: int
    path: list[Spot]
    kept: int
    start: int
    edit: bool = False


def _cut_of_a_path(tree: Tree, copy: Sequence[Message]) -> _Cut:
    """The cut of the newest path that the copy does not edit, or else of the newest one."""
    newest: _Cut | None = None
    for run in tree.runs_with(copy):  # the same ids, edited, are on other paths
        cut = _cut(tree, run, copy)
        if not cut.edit:
            return cut
        newest = newest or cut
    return newest or _Cut(-1, [], 0, 0)


def _cut(tree: Tree, run: int, copy: Sequence[Message]) -> _Cut:
    path = tree.path(run)
    at = {spot.message.id: number for number, spot in enumerate(path)}
    onward = max((number for number, message in enumerate(copy, 1) if message.id in at), default=0)
    kept, start = len(path), onward
    reached = 0  # so much of the path does the copy show
    for number, message in enumerate(copy[:onward]):
        known = at.get(message.id)
        if known is not None:
            reached = max(reached, known + 1)
            edited_from = known if _is_edit(message, path[known]) else None
        else:
            edited_from = _settled(path, reached) if reached and message.role == "user" else None
        if edited_from is not None:
            kept, start = min(kept, edited_from), min(start, number)
    if start < onward:
        return _Cut(run, path, kept, start, edit=True)
    cut = _Cut(run, path, kept, start)
    return cut._replace(kept=_settled(path, reached)) if _goes_back(tree, cut, copy, reached) else cut


def _goes_back(tree: Tree, cut: _Cut, copy: Sequence[Message], reached: int) -> bool:
    """Whether the client means to go another way after the first ``reached`` messages, or to be answered again."""
    if not reached:
        return False
    missing = [spot.message for spot in cut.path[reached:]]
    if any(message.role == "user" and not message.agent for message in missing):
        return True
    # Clients may hide what sub-agents say. To one whose copy ends with a question, theirs is the missing answer.
    asks = cut.path[reached - 1].message.role == "user"
    unanswered = any(message.role == "assistant" and (asks or not message.agent) for message in missing)
    return unanswered and not _given(tree, cut, copy)


def _after(tree: Tree, cut: _Cut) -> Place:
    """The place of a run that follows ``cut``, without its messages."""
    if cut.run < 0:
        return Place()
    run, upto = cut.run, ""
    if cut.kept < len(cut.path):
        if not cut.kept:
            return Place(forks=True)
        end = cut.path[cut.kept - 1]
        run, upto = end.run, "" if tree.tips[end.run] is end else end.message.id
    record = tree.turns[run].record
    newest = max(at for at, turn in enumerate(tree.turns) if turn.record.branch == record.branch)
    if upto or newest != run:
        return Place(parent=record.key, upto=upto, forks=True)
    return Place(parent=record.key, branch=record.branch)


def _settled(path: Sequence[Spot], kept: int) -> int:
    """``kept`` and the tool results behind it: a call without its result is no history."""
    while kept < len(path) and path[kept].message.role == "tool":
        kept += 1
    return kept


def _given(tree: Tree, cut: _Cut, copy: Sequence[Message]) -> list[Message]:
    """What of the copy comes after the cut."""
    kept = [spot.message for spot in cut.path[: cut.kept]]
    left = {spot.message.id: spot for spot in cut.path[cut.kept :]}
    held = {message.id for message in kept}
    calls = {call.id for message in kept for call in message.tool_calls}
    answered = tree.answered(kept)
    given = []
    for number, message in enumerate(copy):
        call = message.tool_call_id if message.role == "tool" else None
        is_said = number >= cut.start or message.role == "user" or call in calls
        if message.id in held or call in answered or tree.stands_in(message) or not is_said:
            continue
        spot = left.get(message.id)
        given.append(message if spot is None or _is_edit(message, spot) else spot.message)
        if call is not None:
            answered.add(call)
    return given


def _is_edit(message: Message, spot: Spot) -> bool:
    """Whether the client changed a message that it knows from us, or that we know from it."""
    ours = spot.message
    if message == ours:
        return False
    if message.role != ours.role:
        return True
    if ours.role == "tool" and spot.written:
        return False
    if ours.role == "assistant":
        return bool(_text(ours)) and not _text(ours).startswith(_text(message))  # what we have no text of was void
    return (_text(message), _files(message)) != (_text(ours), _files(ours))


def _text(message: Message) -> str:
    return (message.content + "".join(part.text for part in message.parts)).strip()


def _files(message: Message) -> list[Part]:
    return [part for part in message.parts if part.kind != "text"]
