"""LangGraph's stream parts become events. Pure, and told by shape alone: neither langgraph nor langchain is imported.

``feed`` takes the parts of ONE call::

    graph.astream(input, config, stream_mode=[*MODES], subgraphs=True, version="v2")

All five modes are needed: ``messages`` has the text, ``tools`` the execution and output of tools, ``tasks`` says which
tool call a namespace belongs to, ``updates`` has interrupts, the plan and what was committed, ``custom`` is the graph's
own. What arrives by several of them is told once. The machines behind: ``_lanes`` (who speaks), ``_turns`` (model
calls), ``_results`` (tool results), ``_plan`` (todos).

Local ids: an agent is the path of call ids that led to it; a message is its LangChain id; a call is the provider's id.

Deliberate divergences: calls without any result (structured output) get an empty one; a result that only says what a
run before already said (a task restored from a checkpoint, history patched by middleware) is not shown again.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from ...errors import AnabranchError
from ...events import (
    EVENT_TYPES,
    ROOT,
    AgentFailed,
    AgentFinished,
    AgentStarted,
    Custom,
    Event,
    Interrupted,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    StateDelta,
    StateSnapshot,
)
from ...scope import join, under
from .._foreign import as_it_is, attribute, entry, json_text, label, listed, plain
from ._failures import explain
from ._lanes import Call, Lane, Lanes, Task, end, settle
from ._results import Results, tool_messages
from ._turns import Turns, is_internal, written

MODES = ("messages", "updates", "custom", "tools", "tasks")
"""The stream modes that the translator needs."""

BREAKPOINT = "breakpoint"
"""The interrupt id of a stop that asks nothing; it is answered by going on."""

_EVENTS = frozenset(EVENT_TYPES)
_OF_A_RUN = frozenset({RunStarted, RunResumed, RunFinished, RunFailed})


class LangGraphTranslator:
    """One run of a graph. ``resumed``: the run answers an interrupt of an earlier one."""

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self._lanes = Lanes()
        self._turns = Turns()
        self._results = Results(self._lanes, resumed)
        self._asked: set[str] = set()
        self._unasked: dict[str, Interrupted] = {}
        self._blamed: list[tuple[BaseException, str | None]] = []
        self._has_state = False

    def feed(self, part: dict[str, Any]) -> list[Event]:
        """The events that one part means, in order."""
        out: list[Event] = []
        kind, data = part["type"], part["data"]
        if kind == "messages":
            message, meta = data
            turn = self._turns.by_id.get(message.id)
            if turn is None:
                self._message(part["ns"], message, meta, out)
            elif not turn.hidden and message.type == "AIMessageChunk":
                self._turns.read(turn, message, out)
        elif kind == "tools":
            self._tool(self._lanes.at(part["ns"], None, out), data, out)
        elif kind == "custom":
            self._custom(self._lanes.at(part["ns"], None, out), data, out)
        elif kind == "tasks":
            self._task(part["ns"], data, out)
        elif kind == "updates":
            self._update(part["ns"], data, out)
        return out

    def close(self, error: BaseException | None) -> list[Event]:
        """The events owed at the end: what was held back, and how the run ended.

        The iterator's own end is LangGraph's finish marker; a message that broke off makes it a failure all the same.
        """
        out: list[Event] = []
        self._results.flush(out)
        if error is not None:
            if not isinstance(error, AnabranchError):
                known = explain(error, next((tool for blamed, tool in self._blamed if blamed is error), None))
                failure = RunFailed(code=known.code, message=str(known), retryable=known.retryable, side=known.side)
                out.append(failure)
            return out
        out.extend(self._unasked.values())
        if self._turns.is_cut():
            out.append(RunFailed(code="model_truncated", message="A model's answer broke off.", retryable=True))
        elif self._asked or self._unasked:
            out.append(RunFinished(outcome="interrupted"))
        else:
            settle(self._lanes.root, out)
            out.append(RunFinished())
        return out

    # --- messages ----------------------------------------------------------------------------------------------

    def _message(self, ns: tuple[str, ...], message: Any, meta: dict[str, Any], out: list[Event]) -> None:
        """A message seen for the first time."""
        if message.type in ("AIMessageChunk", "ai"):
            if is_internal(meta):
                self._turns.hide(message, self._lanes.root)
                return
            name = label(meta.get("lc_agent_name")) or None
            lane, task_id = self._lanes.speaking(ns, label(meta.get("langgraph_checkpoint_ns")), name, out)
            self._turns.read(self._turns.begin(message, meta, lane, task_id), message, out)
        elif message.type == "tool":
            self._results.committed(self._lanes.at(ns, None, out), message, out)

    # --- tools -------------------------------------------------------------------------------------------------

    def _tool(self, lane: Lane, data: dict[str, Any], out: list[Event]) -> None:
        event, call_id = data["event"], label(data["tool_call_id"])
        if event == "tool-output-delta":
            delta = data["delta"]
            if type(delta) in _EVENTS:
                self._relay(lane, self._results.call(lane, call_id, out), delta, out)
            else:
                self._results.output(lane, call_id, delta, out)
        elif event == "tool-started":
            self._results.started(lane, call_id, data, out)
        elif event == "tool-finished":
            self._results.finished(lane, call_id, data["output"], out)
        elif event == "tool-error":
            self._results.failed(lane, call_id, out)

    def _relay(self, lane: Lane, call: Call, event: Any, out: list[Event]) -> None:
        """An event that a tool emitted, in its place. The lanes it opens are the call's, however they are called."""
        kind, agent = type(event), event.agent
        if kind in _OF_A_RUN:
            return  # a tool cannot begin or end the run that called it
        if agent == ROOT:
            out.append(under(lane.path, event))
            return
        path = join(lane.path, f"{call.id}/{agent}")
        if kind is AgentStarted:
            opened = Lane(path)
            call.lanes.append(opened)
            parent, caller = lane.path, event.call_id
            if event.parent != ROOT:
                parent = join(lane.path, f"{call.id}/{event.parent}")
            elif caller is None or (isinstance(caller, str) and caller in lane.calls):
                caller = lane.calls[caller].id if caller else call.id
            out.append(replace(event, agent=path, parent=parent, call_id=caller))
            return
        if kind is AgentFinished or kind is AgentFailed:
            for opened in call.lanes:
                opened.is_open = opened.is_open and opened.path != path
        out.append(replace(event, agent=path))

    def _custom(self, lane: Lane, data: Any, out: list[Event]) -> None:
        if type(data) not in _EVENTS:
            out.append(Custom(agent=lane.path, name="langgraph", value=plain(data, as_it_is)))
        elif type(data) not in _OF_A_RUN:
            out.append(under(lane.path, data))

    # --- tasks -------------------------------------------------------------------------------------------------

    def _task(self, ns: tuple[str, ...], data: dict[str, Any], out: list[Event]) -> None:
        lane = self._lanes.at(ns, label(entry(data.get("metadata"), "lc_agent_name")) or None, out)
        if "result" not in data:
            self._lanes.task_started(lane, data)
            return
        task = self._lanes.task_ended(data["id"])
        error = data.get("error")
        calls = [] if task is None else [lane.calls[c["id"]] for c in task.calls if c["id"] in lane.calls]
        if interrupts := data.get("interrupts"):
            for interrupt in interrupts:
                caller = calls[0] if task is not None and task.solo and calls else None
                self._ask(_question(lane, caller, interrupt), out)
            return  # suspended: its agents and calls stay open
        if error is not None:
            lane.error = error
            self._accuse(error, task)
        else:
            self._turns.task_ended(data["id"], out)
        if task is not None:
            self._results.task_ended(lane, calls, error, out)
            end(task.lanes, error is not None, out)

    def _accuse(self, error: Any, task: Task | None) -> None:
        """Remember what failed: the innermost task reports an error first, before the tasks around it do."""
        tool = task.calls[0]["name"] or "unknown" if task is not None and task.solo else None
        self._blamed.append((error, tool))

    # --- updates -----------------------------------------------------------------------------------------------

    def _update(self, ns: tuple[str, ...], data: dict[str, Any], out: list[Event]) -> None:
        lane = self._lanes.at(ns, None, out)
        cached = entry(data.get("__metadata__"), "cached") is True
        if cached and self._resumed:
            return  # restored from the checkpoint: the run before told it
        for node, update in data.items():
            if node == "__interrupt__":
                self._interrupted(lane, update)
                continue
            for change in update if isinstance(update, list | tuple) else (update,):
                if not isinstance(change, dict):
                    continue
                if cached:  # no node ran, so no other mode has told its messages
                    for message in listed(change.get("messages")):
                        if label(attribute(message, "type")) == "ai" and message.id not in self._turns.by_id:
                            self._message(ns, message, {}, out)
                self._changed(lane, change, out)

    def _changed(self, lane: Lane, change: dict[str, Any], out: list[Event]) -> None:
        for message in tool_messages(change):
            self._results.committed(lane, message, out)
        for text in written(change):
            self._turns.tell(lane, text, out)
        if isinstance(todos := change.get("todos"), list | tuple):  # else a channel of that name that is no plan
            self._planned(lane, plain(todos, as_it_is), out)

    def _planned(self, lane: Lane, todos: Any, out: list[Event]) -> None:
        out.extend(lane.plan.commit(todos))
        if lane is not self._lanes.root:
            return
        if self._has_state:
            out.append(StateDelta(patch=[{"op": "replace", "path": "/todos", "value": todos}]))
        else:
            self._has_state = True
            out.append(StateSnapshot(value={"todos": todos}))

    def _interrupted(self, lane: Lane, interrupts: Any) -> None:
        """Questions are asked when their task reports them, which is when the call that asks is known."""
        if not interrupts:  # a breakpoint: the graph stops before or after a node, and asks nothing
            self._unasked[BREAKPOINT] = Interrupted(interrupt_id=BREAKPOINT, reason="langgraph:breakpoint")
        for interrupt in interrupts:
            if interrupt.id not in self._asked:
                self._unasked.setdefault(interrupt.id, _question(lane, None, interrupt))

    def _ask(self, question: Interrupted, out: list[Event]) -> None:
        """The same interrupt is reported again in the namespace of every agent above the one that asks."""
        self._unasked.pop(question.interrupt_id, None)
        if question.interrupt_id not in self._asked:
            self._asked.add(question.interrupt_id)
            out.append(question)


def _words(said: dict[str, Any]) -> str:
    """A question that has no message, in words."""
    spoken = next((said[name] for name in ("question", "prompt", "text") if isinstance(said.get(name), str)), None)
    return spoken if spoken is not None else json_text(said)


REMOTE = "anabranch_remote"
"""In the value of an interrupt: where the task runs that asks, by which the value is a question of a remote agent."""


def _remote_question(lane: Lane, call: Call | None, id: str, said: dict[str, Any]) -> Interrupted:
    """A question that a tool passes on: the fields of an ``Interrupted``, its ``remote`` under ``REMOTE``."""
    fields = {field: said.get(field) for field in ("reason", "message", "schema", "expires_at", "metadata")}
    return msgspec.convert(
        fields
        | {"interrupt_id": id, "remote": said[REMOTE], "call_id": call.id if call else None}
        | {"agent": lane.path, "type": "interrupted"},
        Interrupted,
    )


def _question(lane: Lane, call: Call | None, interrupt: Any) -> Interrupted:
    """An interrupt of LangGraph's own form, or that of its human-in-the-loop middleware."""
    if not isinstance(interrupt, dict):
        fields = ("id", "value", "response_schema")
        interrupt = {field: attribute(interrupt, field) for field in fields}
    value = plain(interrupt["value"], as_it_is)
    said = value if isinstance(value, dict) else {"message": value}
    if isinstance(said.get(REMOTE), dict):
        return _remote_question(lane, call, interrupt["id"], said)
    message, reason, schema = said.get("message"), said.get("reason"), plain(interrupt.get("response_schema"), as_it_is)
    if requests := [request for request in listed(said.get("action_requests")) if isinstance(request, dict)]:
        reason = "tool_call"
        message = "\n\n".join(label(request.get("description")) or label(request.get("name")) for request in requests)
        if len(requests) == 1:
            named = [c for c in lane.every_call if c.name == label(requests[0].get("name")) and not c.returned]
            call = named[-1] if named else call
    return Interrupted(
        agent=lane.path,
        interrupt_id=interrupt["id"],
        reason=reason if isinstance(reason, str) else "langgraph:interrupt",
        message=message if isinstance(message, str) else _words(said),
        schema=said.get("schema") if schema is None else schema,
        call_id=call.id if call else None,
        metadata={"value": value},
    )
