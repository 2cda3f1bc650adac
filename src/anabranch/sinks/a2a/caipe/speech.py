"""Which texts may be the answer, and which of them can be told as the answer at once. Pure.

These clients add up what is marked ``is_final_answer``, in the order it comes, and cannot take it back. So it is only
marked when it is known from its first piece to be the answer, and to be the next of it: two agents that answer at once
would mix their texts. Where that is not known the text is told without the mark, live all the same, and the answer is
the ``final_result``. Once something was marked everything that follows of the answer is, so what is not its turn yet is
held until it is.
"""

from __future__ import annotations

from .... import events as ev
from .told import CaipeTold, Said, Stream

_PHASES = {"answer": True, "undetermined": None, "narration": False, "progress": False}


class Speech:
    """The messages of one run."""

    def __init__(self, told: CaipeTold) -> None:
        self._told = told

    def routed(self, fact: ev.Routed) -> None:
        """Some agents got the request; of several none is told as the answer before all have said theirs."""
        if fact.route == "parallel" and not self._told.how:
            self._told.how = "whole"

    def agent(self, fact: ev.AgentStarted) -> None:
        """An agent was started; ``told.agents`` knows whether it answers."""
        if self._told.agents[fact.agent].get("answers"):
            self._told.places[fact.agent] = len(self._told.places)
            self._told.answering[fact.agent] = self._place(fact.agent)

    def message(self, fact: ev.MessageStarted) -> None:
        """A message of an agent began."""
        is_answer = _PHASES[fact.phase]
        answers = not fact.agent or self._told.agents.get(fact.agent, {}).get("answers")
        place = None
        if answers and is_answer is not False:
            self._told.places[fact.message_id] = len(self._told.places)
            place = [*self._place(fact.agent), self._told.places[fact.message_id]]
        self._told.said[fact.message_id] = Said(fact.agent, is_answer, place, "", True, [], [])

    def settle(self, fact: ev.MessageFinished) -> Said | None:
        """A message is complete, and what it is for is known as far as it will be. The message; None: there is none."""
        said = self._told.said.get(fact.message_id)
        if said is None:
            return None
        said.open = False
        if fact.phase != "undetermined":
            said.is_answer = _PHASES[fact.phase]
        if fact.message_id in self._told.shown:
            return said
        if said.place is None or said.is_answer is False or not (said.pieces or said.parts):
            del self._told.said[fact.message_id]
        elif said.is_answer and not self._told.how:
            self._told.how = "whole"  # it was told without the mark
        return said

    def stream(self, id: str, said: Said) -> Stream:
        """Where the message goes, which says something for the first time."""
        told = self._told
        if said.place is None:
            return "narration"
        if said.is_answer is None:
            return "held" if told.how == "live" else "text"
        if not told.how:
            told.how = "whole" if self._has_rivals(id, said) else "live"
        if told.how == "whole":
            return "text"
        if self._held() or not self._is_next(said):
            return "held"
        told.shown.append(id)
        return "answer"

    def due(self) -> str | None:
        """The held message whose turn it is now; it is no longer held."""
        held = sorted(self._held(), key=lambda id: self._told.said[id].place or [])
        if not held or self._told.said[held[0]].open or not self._is_next(self._told.said[held[0]]):
            return None
        self._told.said[held[0]].stream = "answer"
        self._told.shown.append(held[0])
        return held[0]

    def answer(self, fact: ev.Terminal) -> list[str]:
        """The messages that the client is to have in the end: the answer, or as much of it as there is."""
        said = self._told.said
        if isinstance(fact, ev.RunFinished) and fact.outcome != "cancelled":
            return [id for id in (fact.answer.message_ids if fact.answer else ()) if id in said]
        found = [id for id, each in said.items() if each.place is not None and (each.pieces or each.parts)]
        return sorted(found, key=lambda id: said[id].place or [])

    def forget(self, id: str) -> bool:
        """A message is void. Whether the client has it as part of the answer."""
        self._told.said.pop(id, None)
        if id not in self._told.shown:
            return False
        self._told.shown.remove(id)
        return True

    # --- the order ---------------------------------------------------------------------------------------------

    def _lanes(self, agent: str) -> list[str]:
        lanes: list[str] = []
        while agent:
            lanes.insert(0, agent)
            agent = self._told.agents.get(agent, {}).get("parent", "")
        return lanes

    def _place(self, agent: str) -> list[int]:
        return [self._told.places[lane] for lane in self._lanes(agent)]

    def _held(self) -> list[str]:
        return [id for id, said in self._told.said.items() if said.stream == "held"]

    def _has_rivals(self, id: str, said: Said) -> bool:
        """Whether something else may be before this in the answer, or come at the same time."""
        others = (other for key, other in self._told.said.items() if key != id and other.place is not None)
        lanes = self._lanes(said.agent)
        return any(other.pieces or other.parts for other in others) or any(
            lane not in lanes for lane in self._told.answering
        )

    def _is_next(self, said: Said) -> bool:
        """Whether nothing that is before it in the answer is still to come."""
        place, lanes = said.place or [], self._lanes(said.agent)
        if any(at < place for lane, at in self._told.answering.items() if lane not in lanes):
            return False
        shown = [self._told.said[id] for id in self._told.shown]
        return not any(other.open or (other.place or []) > place for other in shown)
