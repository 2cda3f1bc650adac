"""Whose words the answer is: the agents', as they wrote them, or the supervisor's own, after it has read theirs.

| policy | what the agents that a turn asks say is the answer |
|---|---|
| ``forward`` | always: no model reads it before the user has it, and none rewrites it |
| ``synthesize`` | never |
| ``auto`` | when the turn does nothing else than ask one agent, none was asked before, and the plan has nothing left |

It is known before the first token. When such an agent fails or says nothing, the supervisor answers after all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

Policy = Literal["forward", "synthesize", "auto"]


def forwards(policy: Policy, state: Mapping[str, Any], delegates: Collection[str]) -> bool:
    """Whether what the tools ``delegates`` bring, which the newest model turn in the graph's ``state`` calls, is it."""
    if policy == "synthesize":
        return False
    place, turn = _turn(state)
    calls = [call["name"] for call in turn.tool_calls] if turn is not None else []
    if not calls or not set(calls) <= set(delegates):
        return False
    if policy == "forward":
        return True
    left = [todo for todo in state.get("todos") or () if todo.get("status") != "completed"]
    return len(calls) == 1 and len(left) <= 1 and not _asked_before(state["messages"][:place], delegates)


def is_answered(policy: Policy, state: Mapping[str, Any], delegates: Collection[str]) -> bool:
    """Whether the answer is complete with the results in ``state``, so that no model is to be called."""
    _, turn = _turn(state)
    if turn is None or not forwards(policy, state, delegates):
        return False
    results = {said.tool_call_id: said for said in state["messages"] if said.type == "tool"}
    told = [results.get(call["id"]) for call in turn.tool_calls]
    return all(said is not None and said.status == "success" and said.text.strip() for said in told)


def forwarding(policy: Policy, delegates: Collection[str]) -> Any:
    """Middleware: the graph ends when the agents have given the answer."""
    from langchain.agents.middleware import AgentMiddleware, hook_config

    class Forwarding(AgentMiddleware[Any, Any]):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
            return {"jump_to": "end"} if is_answered(policy, state, delegates) else None

        @hook_config(can_jump_to=["end"])
        async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
            return self.before_model(state, runtime)

    return Forwarding()


def _turn(state: Mapping[str, Any]) -> tuple[int, AIMessage | None]:
    """The model turn whose calls are being made or were made last, and its place; None when the user spoke since."""
    messages = state.get("messages") or []
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].type == "ai":
            return place, messages[place]
        if messages[place].type != "tool":
            break
    return 0, None


def _asked_before(messages: list[Any], delegates: Collection[str]) -> bool:
    """Whether the supervisor has asked some agent since the user's last message."""
    for said in reversed(messages):
        if said.type == "human":
            return False
        if said.type == "tool" and said.name in delegates:
            return True
    return False
