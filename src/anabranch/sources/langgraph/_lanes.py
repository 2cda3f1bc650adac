"""Who is speaking: LangGraph's namespaces joined to a tree of agents and tool calls. Pure.

A namespace names no agent, only the tasks it runs in: ``("tools:<task id>", "tools:<task id>")``. A ``tasks`` part says
which tool call a task runs, so a namespace becomes a path of call ids. A graph that is a node of another graph has no
call and keeps its node's segment; every graph after the first that one task runs gets a counter for a segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import SourceError
from ...events import (
    ROOT,
    AgentFailed,
    AgentFinished,
    AgentStarted,
    Event,
    ToolArgsDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolReturned,
)
from ...scope import join
from .._foreign import attribute, called, entry, json_text, label
from ._failures import explain
from ._plan import Plan

Namespace = tuple[str, ...]


class Call:
    """One tool call. ``id`` is its local id: the provider's, or a variant of it when the provider used that before."""

    __slots__ = ("asked", "closed", "held", "id", "lanes", "name", "returned", "running", "solo")

    def __init__(self, id: str, name: str) -> None:
        self.id, self.name = id, name
        self.asked = False  # a model asked for it in this run
        self.solo = False  # a task of its own runs it, so its ToolMessage follows at once
        self.running = False
        self.closed = False  # its arguments are complete
        self.returned = False
        self.held: tuple[str, bool] | None = None  # a result not committed yet: its text, whether it is an error
        self.lanes: list[Lane] = []


class Lane:
    """One agent's place in the run, under the local id ``path``."""

    __slots__ = ("call", "calls", "error", "every_call", "is_open", "lanes", "name", "parent", "path", "plan", "turns")

    def __init__(self, path: str, parent: Lane | None = None, call: Call | None = None) -> None:
        self.path, self.parent, self.call = path, parent, call
        self.name: str | None = None  # as LangChain knows the agent
        self.is_open = True
        self.error: BaseException | None = None  # what a task of it failed with, and no other task began since
        self.calls: dict[str, Call] = {}  # the newest call of each id
        self.every_call: list[Call] = []
        self.lanes: list[Lane] = []  # of graphs that are nodes of this one
        self.plan = Plan(path)
        self.turns: list[Any] = []  # of its models

    def begin_call(self, call_id: str, name: str) -> Call:
        """A new call, under ``call_id`` from now on. A provider may use an id again in a later turn."""
        used = {call.id for call in self.every_call}
        local, n = call_id, 1
        while local in used:
            n += 1
            local = f"{call_id}#{n}"
        call = self.calls[call_id] = Call(local, name)
        self.every_call.append(call)
        return call


class Task:
    """A node at work: the tool calls it may run, and the lanes of the graphs it is."""

    __slots__ = ("calls", "lane", "lanes", "name", "solo")

    def __init__(self, lane: Lane, name: str, given: Any) -> None:
        self.lane, self.name = lane, name
        self.calls, self.solo = _calls_in(given)
        self.lanes: list[Lane] = []


def _calls_in(given: Any) -> tuple[list[dict[str, Any]], bool]:
    """The tool calls in a task's input, and whether the task was made for that one call."""
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], dict) and "args" in given[0]:
        return called(given), True
    if isinstance(given, dict) and isinstance(given.get("tool_call"), dict):
        return called([given["tool_call"]]), True
    messages = given.get("messages") if isinstance(given, dict) else given
    last = messages[-1] if isinstance(messages, list) and messages else None
    return called(attribute(last, "tool_calls")), False


class Lanes:
    """All lanes of one run, by namespace, and the tasks that are at work."""

    def __init__(self) -> None:
        self.root = Lane(ROOT)
        self._by_namespace: dict[Namespace, Lane] = {(): self.root}
        self._tasks: dict[str, Task] = {}

    def at(self, ns: Namespace, name: str | None, out: list[Event]) -> Lane:
        """The lane of the graph at ``ns``. ``name`` is LangChain's name for the agent that speaks there, if any."""
        lane = self._by_namespace.get(ns)
        return lane if lane is not None else self._enter(ns, name, out)

    def speaking(self, ns: Namespace, checkpoint_ns: str, name: str | None, out: list[Event]) -> tuple[Lane, str]:
        """``(lane, task id)`` of a model: the graph's, or that of the tool call whose body calls the model."""
        lane = self.at(ns, name, out)
        segment = checkpoint_ns.rpartition("|")[2]
        task_id = segment.rpartition(":")[2]
        task = self._tasks.get(task_id)
        if task is not None and (task.solo or _running(task)):
            lane = self.at((*ns, segment), name, out)
        return lane, task_id

    def task_started(self, lane: Lane, data: dict[str, Any]) -> None:
        """A ``tasks`` part without a result."""
        if name := label(entry(data.get("metadata"), "lc_agent_name")):
            lane.name = name
        lane.error = None
        self._tasks[data["id"]] = Task(lane, data["name"], data.get("input"))

    def task_ended(self, task_id: str) -> Task | None:
        """The task of a ``tasks`` part with a result, known for the last time."""
        return self._tasks.pop(task_id, None)

    def solo(self, lane: Lane, call_id: str) -> bool:
        """Whether a task was made for this call alone."""
        return any(t.solo and t.lane is lane and t.calls[0]["id"] == call_id for t in self._tasks.values())

    def _enter(self, ns: Namespace, name: str | None, out: list[Event]) -> Lane:
        above = self.at(ns[:-1], None, out)
        segment = ns[-1]
        task = self._tasks.get(segment.rpartition(":")[2])
        if ":" not in segment and above.parent is not None:
            # A counter: the task that runs the graph above runs another one after it, under the same caller.
            lane = Lane(f"{above.path}/{segment}", above.parent, above.call)
            owner = above.call.lanes if above.call else above.parent.lanes
            called = above.call.name if above.call else segment
        elif task is None:
            # Not announced: the grammar shows the agent as unattributed.
            lane = self._by_namespace[ns] = Lane(join(above.path, segment))
            return lane
        elif (call := _caller(task)) is not None:
            lane, owner, called = Lane(join(above.path, call.id), above, call), call.lanes, call.name
        else:
            lane, owner, called = Lane(join(above.path, segment), above), above.lanes, task.name
            task.lanes.append(lane)
        self._by_namespace[ns] = lane
        owner.append(lane)
        lane.name = name
        caller = lane.parent
        assert caller is not None
        shown = (name if name != caller.name else None) or _kind_of_agent(task) or called
        call_id = lane.call.id if lane.call else None
        out.append(AgentStarted(agent=lane.path, name=shown, parent=caller.path, call_id=call_id))
        return lane


def _running(task: Task) -> list[Call]:
    calls = (task.lane.calls.get(call["id"]) for call in task.calls)
    return [call for call in calls if call is not None and (task.solo or call.running)]


def _caller(task: Task) -> Call | None:
    """The call that runs in ``task``; None when it runs several at once, which no part tells apart."""
    running = _running(task)
    return running[0] if len(running) == 1 else None


def _kind_of_agent(task: Task | None) -> str | None:
    """The kind of sub-agent that the arguments of a deepagents ``task`` call ask for."""
    kind = entry(task.calls[0]["args"], "subagent_type") if task is not None and task.solo else None
    return kind if isinstance(kind, str) else None


def announce(lane: Lane, call_id: str, name: str, arguments: Any, out: list[Event]) -> Call:
    """A whole call that no model turn of this run announced: resumed, or made by the graph's own code."""
    call = lane.begin_call(call_id, name)
    call.closed = True
    out.append(ToolCallStarted(agent=lane.path, call_id=call.id, name=name))
    if arguments is not None:
        out.append(ToolArgsDelta(agent=lane.path, call_id=call.id, delta=json_text(arguments)))
    out.append(ToolCallFinished(agent=lane.path, call_id=call.id))
    return call


def end(lanes: Sequence[Lane], failed: bool, out: list[Event]) -> None:
    """The agents of ``lanes`` ended with what called them; inner ones first."""
    for lane in reversed(lanes):
        if not lane.is_open:
            continue
        lane.is_open = False
        end(lane.lanes, failed, out)
        for call in lane.every_call:
            end(call.lanes, failed, out)
        for turn in lane.turns:
            if not turn.ended:
                turn.close("narration", out)  # it broke off, and the code around it went on without it
        if failed or lane.error:
            error = lane.error or SourceError("The agent was stopped: the tool that called it failed.")
            known = explain(error)
            out.append(AgentFailed(agent=lane.path, code=known.code, message=str(known)))
        else:
            settle(lane, out)
            out.append(AgentFinished(agent=lane.path))


def settle(lane: Lane, out: list[Event]) -> None:
    """Calls whose result nobody committed: what the tool reported, or nothing when nobody executed it.

    The arguments of such a call were the answer themselves (structured output).
    """
    for call in lane.every_call:
        if not call.returned:
            call.returned = True
            text, is_error = call.held or ("", False)
            error = text if is_error else None
            out.append(ToolReturned(agent=lane.path, call_id=call.id, content=text, is_error=is_error, error=error))
