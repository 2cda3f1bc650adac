"""A question of a remote agent as an interrupt of the graph, and how the call that asked finds it again.

LangGraph runs the tool from its start again when the user has answered, maybe in another process, and ``interrupt()``
only gives it the answer. Which task waits for that is in what was asked, which the graph's checkpointer has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from langgraph.types import interrupt

from ..events import Interrupted, Remote
from ..sources.langgraph.translate import REMOTE


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of it when the call runs again: the task, what the agent ``said`` before, the how manieth it is."""

    value: dict[str, Any]

    @property
    def remote(self) -> Remote:
        """The task that waits."""
        return msgspec.convert(self.value[REMOTE], Remote)

    @property
    def said(self) -> str:
        """The text of the answer until then."""
        return str(self.value["said"])

    @property
    def number(self) -> int:
        """How many questions the call has asked, this one included."""
        return int(self.value["number"])

    def answer(self) -> Any:
        """The user's answer. Raises ``GraphInterrupt`` when there is none yet: then it is asked again."""
        answers = [interrupt(self.value) for _ in range(self.number)]  # the earlier ones have been sent
        return answers[-1]


def ask(asked: Interrupted, call: Mapping[str, Any], *, agent: str, said: str, number: int) -> Any:
    """Stop the graph with what the agent asks. Raises ``GraphInterrupt``.

    ``call`` tells it from the questions of other calls.
    """
    fields = ("reason", "message", "schema", "expires_at", "metadata")
    told = {field: value for field in fields if (value := getattr(asked, field)) is not None}
    remote = msgspec.to_builtins(asked.remote or Remote())
    return interrupt({"type": "a2a", "agent": agent, **told, **call, REMOTE: remote, "said": said, "number": number})


def keeps_checkpoints(config: Mapping[str, Any]) -> bool:
    """Whether the graph could go on after an interrupt."""
    return _saver(config) is not None


async def asked_by(config: Mapping[str, Any], call: Mapping[str, Any], *, sync: bool) -> Question | None:
    """What ``call`` has asked, if it runs again because of that. ``sync``: the graph is run by ``invoke``."""
    known = config.get("configurable") or {}
    saver, task_id = _saver(config), known.get("__pregel_task_id")
    if saver is None or task_id is None:
        return None
    namespace = str(known.get("checkpoint_ns") or "").rpartition("|")[0]
    place = {"thread_id": known["thread_id"], "checkpoint_ns": namespace}
    if checkpoint_id := (known.get("checkpoint_map") or {}).get(namespace):
        place["checkpoint_id"] = checkpoint_id
    where = {"configurable": place}
    found = saver.get_tuple(where) if sync else await saver.aget_tuple(where)
    for task, channel, written in (found.pending_writes or ()) if found else ():
        if task == task_id and channel == "__interrupt__":
            for each in written:
                value = each.value
                if isinstance(value, dict) and REMOTE in value and call.items() <= value.items():
                    return Question(value=value)
    return None


def _saver(config: Mapping[str, Any]) -> Any:
    return (config.get("configurable") or {}).get("__pregel_checkpointer")
