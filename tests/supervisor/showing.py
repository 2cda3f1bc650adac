"""What strict clients of both protocols hold of a run, and what they take for its answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]


class Shown:
    """What a client of AG-UI shows of a run. It is strict: everything opens once, and belongs to somebody."""

    def __init__(self, events: Sequence[Json]) -> None:
        self.events = events
        self.texts: dict[str, str] = {}
        self.deltas: dict[str, list[str]] = {}
        self.agents: dict[str, str] = {"": ""}
        self.failed: dict[str, str] = {}
        self.results: dict[str, list[tuple[str, bool]]] = {}
        self.route: list[Json] = []
        self._owner: dict[str, str] = {}
        self._phase: dict[str, str] = {}
        self._void: set[str] = set()
        self._calls: dict[str, str] = {}
        for each in events:
            self._take(each)
        ends = [each for each in events if each["type"] in ("RUN_FINISHED", "RUN_ERROR")]
        assert len(ends) == 1 and events[-1] is ends[0], [each["type"] for each in events[-3:]]
        self.end = ends[0]

    def _take(self, said: Json) -> None:
        kind, lane = said["type"], said.get("subagentRunId", "")
        phase = said.get("metadata", {}).get("anabranch", {}).get("phase")
        if kind == "SUBAGENT_STARTED":
            assert lane not in self.agents and said.get("parentToolCallId") in self._calls
            self.agents[lane] = said["name"]
        elif kind == "SUBAGENT_ERROR":
            self.failed[self.agents[lane]] = said["code"]
        elif kind.startswith("TEXT_MESSAGE"):
            id = said["messageId"]
            if kind == "TEXT_MESSAGE_START":
                assert id not in self.texts
                self.texts[id], self.deltas[id] = "", []
                self._owner[id] = self.agents[lane]
            elif kind == "TEXT_MESSAGE_CONTENT":
                self.texts[id] += said["delta"]
                self.deltas[id].append(said["delta"])
            self._phase[id] = phase or self._phase.get(id, "")
        elif kind == "TOOL_CALL_START":
            assert said["toolCallId"] not in self._calls
            self._calls[said["toolCallId"]] = said["toolCallName"]
        elif kind == "TOOL_CALL_RESULT":
            is_error = said.get("metadata", {}).get("anabranch", {}).get("isError", False)
            self.results.setdefault(self._calls[said["toolCallId"]], []).append((said["content"], is_error))
        elif said.get("name") == "anabranch.message_reset":
            self._void.add(said["value"]["messageId"])
        elif said.get("name") == "anabranch.routed":
            self.route.append(said["value"])

    def of(self, agent: str, *phases: str) -> str:
        """What an agent says, in some phases; of all but progress when none is named. The root agent is ``""``."""
        ids = [id for id, owner in self._owner.items() if owner == agent and id not in self._void]
        wanted = phases or ("", "answer", "narration")
        return "".join(self.texts[id] for id in ids if self._phase[id] in wanted)

    @property
    def answer(self) -> str:
        """The messages that the end names as the answer, and nothing else is in them."""
        said = self.end.get("metadata", {}).get("anabranch", {}).get("answer")
        if said is None:
            return ""
        text = "".join(self.texts[id] for id in said["messageIds"])
        assert (said["length"], said["sha256"]) == (len(text), hashlib.sha256(text.encode()).hexdigest())
        assert not self._void & set(said["messageIds"])
        assert {self._phase[id] for id in said["messageIds"]} <= {"", "answer"}
        return text

    @property
    def ended(self) -> str:
        """The outcome, or the code of the error."""
        return str(self.end["code"] if self.end["type"] == "RUN_ERROR" else self.end["outcome"]["type"])


class Task:
    """What a plain client of A2A holds after a stream: the text of each artifact, and the end."""

    def __init__(self, stream: Sequence[Json]) -> None:
        self.texts: dict[str, str] = {}
        self.phases: dict[str, str] = {}
        for said in stream:
            if update := said.get("artifactUpdate"):
                made, about = update["artifact"], update.get("metadata", {}) | update["artifact"].get("metadata", {})
                id, text = made["artifactId"], "".join(part.get("text", "") for part in made["parts"])
                assert update.get("append", False) is (id in self.texts) or not text, "a text begins once"
                self.texts[id] = (self.texts.get(id, "") if update.get("append") else "") + text
                self.phases[id] = about.get("anabranch", {}).get("phase") or self.phases.get(id, "")
        assert "statusUpdate" in stream[-1]
        self.status = stream[-1]["statusUpdate"]["status"]
        self.about = stream[-1]["statusUpdate"].get("metadata", {}).get("anabranch", {})

    @property
    def state(self) -> str:
        return str(self.status["state"]).removeprefix("TASK_STATE_")

    @property
    def text(self) -> str:
        """All that such a client shows."""
        return "".join(self.texts.values())

    @property
    def answer(self) -> str:
        """The artifacts that the end names as the answer."""
        said = self.about.get("answer")
        if said is None:
            return ""
        text = "".join(self.texts[id] for id in said["messageIds"])
        assert (said["length"], said["sha256"]) == (len(text), hashlib.sha256(text.encode()).hexdigest())
        return text
