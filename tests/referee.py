"""Judges a run's public stream by the rules that clients rely on. Written without looking at the table it judges."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from anabranch import events as ev

TERMINAL = (ev.RunFinished, ev.RunFailed)
SURROGATE = re.compile("[\ud800-\udfff]")


class Foul(AssertionError):
    """What a stream did wrong."""


class Referee:
    """Watches one stream, event by event; ``over`` checks that it ended."""

    def __init__(self) -> None:
        self.run_id: str | None = None
        self.terminal: ev.Event | None = None
        self.lanes: dict[str, ev.AgentStarted] = {}
        self.live = {ev.ROOT}
        self.unlawful: set[str] = set()
        self.failed: set[str] = set()
        self.used: dict[str, int] = {}
        self.open: dict[str, Any] = {}  # public id -> the start of a message, reasoning or call that takes text
        self.closed: dict[str, Any] = {}
        self.calls: dict[str, Any] = {}  # every call that began
        self.returned: set[str] = set()
        self.reset: set[str] = set()
        self.void: set[str] = set()
        self.steps: set[tuple[str, str]] = set()
        self.activities: dict[str, Any] = {}
        self.questions: dict[str, Any] = {}
        self.resolved: set[str] = set()
        self.texts: defaultdict[str, str] = defaultdict(str)
        self.starts: dict[str, Any] = {}
        self.phases: dict[str, str] = {}
        self.usage: dict[str, Counter[str]] = {}

    def see(self, events: Iterable[ev.Event]) -> None:
        for event in events:
            self._see(event)

    def over(self) -> None:
        self._rule(self.terminal is not None, "the stream has no terminal event")

    # --- rules -------------------------------------------------------------------------------------------------

    def _rule(self, holds: bool, flaw: str) -> None:
        if not holds:
            raise Foul(flaw)

    def _see(self, event: Any) -> None:
        self._rule(self.terminal is None, f"{event} follows the terminal event")
        self._rule(ev.decode(ev.encode(event)) == event, f"{event} does not survive a log")
        first = self.run_id is None
        self._rule(not first or isinstance(event, (ev.RunStarted, *TERMINAL)), f"{event} comes before the run started")
        self._rule(event.agent in self.live or isinstance(event, ev.AgentStarted), f"{event} is in no live agent")
        getattr(self, "_" + re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower())(event)

    def _new(self, id: str) -> None:
        self._rule(re.fullmatch(re.escape(f"{self.run_id}:") + r"[1-9]\d*", id) is not None, f"{id!r} is no public id")
        self._rule(id not in self.used, f"{id} was used before")
        self.used[id] = len(self.used)

    def _refers(self, id: str | None) -> None:
        if id:
            self._rule(id.startswith(f"{self.run_id}:"), f"{id!r} is no public id")

    def _continues_in(self, owner: str, agent: str) -> None:
        """A part may go on in a continuation of the agent that began it, and nowhere else."""
        while agent != owner:
            lane = self.lanes.get(agent)
            self._rule(lane is not None and lane.continues is not None, f"a part of {owner!r} goes on in {agent!r}")
            agent = lane.continues  # type: ignore[union-attr,assignment]  # ruled just now

    def _run_started(self, event: ev.RunStarted) -> None:
        self._rule(self.run_id is None and event.agent == ev.ROOT, "the run started twice, or in a sub-agent")
        self.run_id = event.run_id

    def _run_resumed(self, event: ev.RunResumed) -> None:
        self._rule(event.agent == ev.ROOT, "a sub-agent resumed the run")
        for id in event.voided_message_ids:
            self._rule(isinstance(self.closed.get(id), ev.MessageStarted), f"{id} is no finished message")
        for id in event.voided_call_ids:
            self._rule(id in self.calls and id not in self.open, f"{id} is no finished call")
        self.void |= {*event.voided_message_ids, *event.voided_call_ids}

    def _agent_started(self, event: ev.AgentStarted) -> None:
        self._new(event.agent)
        self._rule(event.parent in self.live, f"{event} has no live parent")
        self._refers(event.call_id)
        if event.continues is not None:
            before = self.lanes.get(event.continues)
            self._rule(before is not None and event.continues not in self.live, f"{event} continues what is not over")
            self._rule(before.origin_id == event.origin_id, f"{event} continues another agent")  # type: ignore[union-attr]
            self._rule(event.continues not in self.unlawful, f"{event} continues an agent that failed as unlawful")
        self.lanes[event.agent] = event
        self.live.add(event.agent)

    def _lane_over(self, event: Any, waits: bool) -> None:
        self._rule(event.agent != ev.ROOT, "the root agent ended as a sub-agent")
        within = [start for start in self.open.values() if start.agent == event.agent]
        within += [step for step in self.steps if step[0] == event.agent]
        within += [lane for lane in self.lanes.values() if lane.parent == event.agent and lane.agent in self.live]
        self._rule(not within, f"{event.agent} ended before {within}")
        if not waits:
            self._returned_all(event.agent, not isinstance(event, ev.AgentFailed) and event.outcome != "cancelled")
        self.live.remove(event.agent)

    def _returned_all(self, agent: str, client_may_wait: bool) -> None:
        for id, (start, owner) in self.calls.items():
            if owner == agent and id not in self.returned | self.void:
                self._rule(client_may_wait and start.executor == "client", f"{id} has no result")

    def _agent_finished(self, event: ev.AgentFinished) -> None:
        self._lane_over(event, event.outcome == "suspended")

    def _agent_failed(self, event: ev.AgentFailed) -> None:
        self._lane_over(event, False)
        self.failed.add(event.agent)
        if event.code == "unlawful":
            self.unlawful.add(event.agent)

    def silenced(self, agent: str) -> bool:
        """Whether what an agent, by its local id, says now is lost: it or one above it failed as unlawful."""
        newest = {lane.origin_id: lane for lane in self.lanes.values()}
        while agent != ev.ROOT:
            lane = newest.get(agent)
            if lane is None:
                agent = agent.rpartition("/")[0]
            elif lane.agent in self.unlawful:
                return True
            else:
                agent = self.lanes[lane.parent].origin_id if lane.parent else ev.ROOT
        return False

    def _begin(self, id: str, event: Any) -> None:
        self._new(id)
        self.open[id] = self.starts[id] = event

    def _goes_on(self, kind: type, id: str, event: Any) -> None:
        self._rule(isinstance(self.open.get(id), kind), f"{event} is about nothing open")
        self._rule(self.open[id].agent == event.agent, f"{event} is in another agent than its start")

    def _ends(self, kind: type, id: str, event: Any) -> None:
        self._goes_on(kind, id, event)
        self.closed[id] = self.open.pop(id)

    def _text(self, id: str, delta: str) -> None:
        self._rule(bool(delta) and not SURROGATE.search(delta), f"{delta!r} is no text")
        self.texts[id] += delta

    def _message_started(self, event: ev.MessageStarted) -> None:
        self._begin(event.message_id, event)

    def _text_delta(self, event: ev.TextDelta) -> None:
        self._goes_on(ev.MessageStarted, event.message_id, event)
        self._text(event.message_id, event.delta)

    def _message_finished(self, event: ev.MessageFinished) -> None:
        self._ends(ev.MessageStarted, event.message_id, event)
        self.phases[event.message_id] = event.phase

    def _message_reset(self, event: ev.MessageReset) -> None:
        id = event.message_id
        self._rule(isinstance(self.closed.get(id), ev.MessageStarted), f"{event} is about no finished message")
        self._rule(id not in self.reset, f"{id} was reset twice")
        self._rule(event.superseded_by != id, f"{id} supersedes itself")
        self._continues_in(self.starts[id].agent, event.agent)
        self._refers(event.superseded_by)
        self.reset.add(id)

    def _part_added(self, event: ev.PartAdded) -> None:
        self._goes_on(ev.MessageStarted, event.message_id, event)

    def _annotated(self, event: ev.Annotated) -> None:
        self._goes_on(ev.MessageStarted, event.message_id, event)

    def _reasoning_started(self, event: ev.ReasoningStarted) -> None:
        self._begin(event.reasoning_id, event)

    def _reasoning_delta(self, event: ev.ReasoningDelta) -> None:
        self._goes_on(ev.ReasoningStarted, event.reasoning_id, event)
        self._text(event.reasoning_id, event.delta)

    def _reasoning_finished(self, event: ev.ReasoningFinished) -> None:
        self._ends(ev.ReasoningStarted, event.reasoning_id, event)

    def _tool_call_started(self, event: ev.ToolCallStarted) -> None:
        self._begin(event.call_id, event)
        self.calls[event.call_id] = (event, event.agent)
        self._rule(bool(event.message_id), f"{event} is of no model turn")
        self._refers(event.message_id)
        turn = self.starts.get(event.message_id, event)
        self._rule(turn.agent == event.agent, f"{event} is in a message of another agent")

    def _tool_args_delta(self, event: ev.ToolArgsDelta) -> None:
        self._goes_on(ev.ToolCallStarted, event.call_id, event)
        self._text(event.call_id, event.delta)

    def _tool_call_finished(self, event: ev.ToolCallFinished) -> None:
        self._ends(ev.ToolCallStarted, event.call_id, event)

    def _runs(self, event: Any) -> None:
        self._rule(event.call_id in self.calls and event.call_id not in self.open, f"{event} is about no finished call")
        self._rule(event.call_id not in self.returned, f"{event} follows the call's result")
        start, owner = self.calls[event.call_id]
        self._continues_in(owner, event.agent)
        self.calls[event.call_id] = (start, event.agent)

    def _tool_output_delta(self, event: ev.ToolOutputDelta) -> None:
        self._runs(event)

    def _tool_returned(self, event: ev.ToolReturned) -> None:
        self._runs(event)
        self._new(event.message_id)
        self.returned.add(event.call_id)

    def _state_snapshot(self, event: ev.StateSnapshot) -> None: ...

    def _state_delta(self, event: ev.StateDelta) -> None: ...

    def _activity_snapshot(self, event: ev.ActivitySnapshot) -> None:
        if event.activity_id in self.activities:
            self._continues_in(self.activities[event.activity_id].agent, event.agent)
        else:
            self._new(event.activity_id)
        self.activities[event.activity_id] = event

    def _activity_delta(self, event: ev.ActivityDelta) -> None:
        self._rule(event.activity_id in self.activities, f"{event} changes nothing")
        self._continues_in(self.activities[event.activity_id].agent, event.agent)

    def _interrupted(self, event: ev.Interrupted) -> None:
        self._new(event.interrupt_id)
        self._refers(event.call_id)
        self.questions[event.interrupt_id] = event

    def _interrupt_resolved(self, event: ev.InterruptResolved) -> None:
        self._rule(
            event.interrupt_id not in self.questions or event.interrupt_id not in self.resolved, f"{event} again"
        )
        self.resolved.add(event.interrupt_id)

    def _routed(self, event: ev.Routed) -> None: ...

    def _remote_known(self, event: ev.RemoteKnown) -> None: ...

    def _usage_reported(self, event: ev.UsageReported) -> None:
        spent = self.usage.setdefault(event.usage.model, Counter())
        for field in ("input", "output", "reasoning", "cached"):
            spent[field] += getattr(event.usage, field)

    def _step_started(self, event: ev.StepStarted) -> None:
        self._rule((event.agent, event.name) not in self.steps, f"{event} again")
        self.steps.add((event.agent, event.name))

    def _step_finished(self, event: ev.StepFinished) -> None:
        self._rule((event.agent, event.name) in self.steps, f"{event} ends nothing")
        self.steps.remove((event.agent, event.name))

    def _custom(self, event: ev.Custom) -> None: ...

    def _unknown(self, event: ev.Unknown) -> None: ...

    def _end(self, event: Any, fulfilled: bool) -> None:
        self._rule(event.agent == ev.ROOT, "a sub-agent ended the run")
        left = [*self.open.values(), *self.steps, *sorted(self.live - {ev.ROOT})]
        self._rule(not left, f"the run ended before {left}")
        if self.run_id is not None and not (isinstance(event, ev.RunFinished) and event.outcome == "interrupted"):
            self._returned_all(ev.ROOT, fulfilled)
        told = {usage.model: usage for usage in event.usage}
        for model, spent in self.usage.items():
            fields = ("input", "output", "reasoning", "cached")
            sums = {field: min(spent[field], 2**53 - 1) for field in fields}
            self._rule(all(getattr(told[model], field) == sums[field] for field in fields), f"{model}: wrong usage")
        self.terminal = event

    def _run_failed(self, event: ev.RunFailed) -> None:
        self._end(event, False)
        messages = any(self.texts[id] for id, start in self.starts.items() if isinstance(start, ev.MessageStarted))
        self._rule(event.partial == messages, f"partial is {event.partial}")
        self._rule(len(event.message) <= 500, "the error is too long")

    def _run_finished(self, event: ev.RunFinished) -> None:
        self._end(event, event.outcome == "success")
        waiting = (
            {id for id, (start, _) in self.calls.items() if start.executor == "client"} - self.returned - self.void
        )
        self._rule(set(event.pending_call_ids) == (waiting if event.outcome != "cancelled" else set()), "wrong pending")
        asked = [id for id in self.questions if id not in self.resolved]
        self._rule(list(event.interrupt_ids) == (asked if event.outcome == "interrupted" else []), "wrong questions")
        self._rule(event.outcome != "success" or not asked, "a question is lost")
        self._rule(event.outcome != "interrupted" or bool(asked), "no question")
        self._rule(
            (event.answer is not None) == (event.outcome != "cancelled" and bool(self.answer_ids())), "no answer"
        )
        if event.answer is not None:
            self._rule(list(event.answer.message_ids) == self.answer_ids(), "wrong answer")

    def answer_ids(self) -> list[str]:
        """The messages that a client would call the answer."""
        said: dict[str, list[int]] = {}
        for id, start in self.starts.items():
            if not isinstance(start, ev.MessageStarted) or id in self.reset | self.void:
                continue
            lanes = self._above(start.agent)
            answers = all(lane.answers and lane.agent not in self.failed for lane in lanes)
            if answers and (start.role, self.phases.get(id)) == ("assistant", "answer"):
                said[id] = [*(self.used[lane.agent] for lane in lanes), self.used[id]]
        return sorted(said, key=said.__getitem__)

    def _above(self, agent: str) -> list[ev.AgentStarted]:
        """The invocations from the root down to ``agent``, without the root."""
        lanes: list[ev.AgentStarted] = []
        while agent != ev.ROOT:
            lanes.insert(0, self.lanes[agent])
            agent = lanes[0].parent
        return lanes


def judged(events: Iterable[ev.Event]) -> Referee:
    """The referee of a whole stream. Raises ``Foul``."""
    referee = Referee()
    referee.see(events)
    referee.over()
    return referee
