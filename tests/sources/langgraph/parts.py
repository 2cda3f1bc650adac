"""Stream parts as the installed LangGraph gives them (`test_contract` pins that), in short words."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessageChunk, ToolMessage

from .graphs import fragment

Part = dict[str, Any]


def part(kind: str, data: Any, *ns: str) -> Part:
    """One v2 stream part."""
    return {"type": kind, "ns": ns, "data": data}


def chunk(content: Any = "", *ns: str, id: str = "m1", lane: str = "", at: str = "model:1", **fields: Any) -> Part:
    """A chunk of a model's message; ``lane`` is whose text it is in the end, which the cut tests compare with."""
    meta = {"langgraph_checkpoint_ns": "|".join((*ns, at)), "langgraph_node": at.partition(":")[0], "lane": lane}
    meta |= fields.pop("meta", {})
    return part("messages", (AIMessageChunk(content=content, id=id, **fields), meta), *ns)


def called(*fragments: dict[str, Any], id: str = "m1", lane: str = "") -> Part:
    """A chunk with tool call fragments."""
    return chunk(id=id, lane=lane, tool_call_chunks=list(fragments))


def last(*ns: str, id: str = "m1", reason: str = "stop") -> list[Part]:
    """The end of a model's message."""
    end = chunk("", *ns, id=id, response_metadata={"finish_reason": reason, "model_name": "gpt-x"})
    return [end, chunk("", *ns, id=id, chunk_position="last")]


def works(task_id: str, *ns: str, name: str = "tools", given: Any = None, agent: str | None = None) -> Part:
    """A task began."""
    data = {"id": task_id, "name": name, "input": given, "triggers": (), "metadata": {"lc_agent_name": agent}}
    return part("tasks", data, *ns)


def ends(task_id: str, *ns: str, name: str = "tools", error: Any = None, interrupts: Any = ()) -> Part:
    """A task ended."""
    data = {"id": task_id, "name": name, "error": error, "interrupts": list(interrupts), "result": {}}
    return part("tasks", data, *ns)


def tool_call(id: str, name: str = "add", **args: Any) -> dict[str, Any]:
    """A whole tool call as LangChain has it."""
    return {"id": id, "name": name, "args": args, "type": "tool_call"}


def starts(id: str, *ns: str, name: str = "add", **args: Any) -> Part:
    """A tool began to run."""
    return part("tools", {"event": "tool-started", "tool_call_id": id, "tool_name": name, "input": args}, *ns)


def emits(id: str, delta: Any, *ns: str) -> Part:
    """A tool's output before its result."""
    return part("tools", {"event": "tool-output-delta", "tool_call_id": id, "delta": delta}, *ns)


def finishes(id: str, output: Any, *ns: str) -> Part:
    """A tool returned."""
    return part("tools", {"event": "tool-finished", "tool_call_id": id, "output": output}, *ns)


def fails(id: str, message: str, *ns: str) -> Part:
    """A tool raised."""
    return part("tools", {"event": "tool-error", "tool_call_id": id, "message": message}, *ns)


def result(id: str, content: Any, **fields: Any) -> ToolMessage:
    """A ToolMessage."""
    return ToolMessage(content, tool_call_id=id, **fields)


def shown(message: Any, *ns: str, at: str = "tools:1") -> Part:
    """A whole message in ``messages``."""
    if message.id is None:
        message.id = f"id of {message.content}"
    return part("messages", (message, {"langgraph_checkpoint_ns": "|".join((*ns, at)), "lane": ""}), *ns)


def updates(*ns: str, node: str = "tools", **change: Any) -> Part:
    """What a node wrote."""
    return part("updates", {node: change}, *ns)


def asks_whole(*calls: dict[str, Any], id: str = "m1") -> list[Part]:
    """A model turn with whole calls."""
    pieces = [fragment(n, call["id"], call["name"], "{}") for n, call in enumerate(calls)]
    return [called(*pieces, id=id), *last(id=id, reason="tool_calls")]


def runs(call: dict[str, Any], task_id: str, *inside: Part, ns: tuple[str, ...] = (), returns: str = "3") -> list[Part]:
    """A call in a task of its own, with what happens inside, from its start to its commit."""
    message = result(call["id"], returns)
    return [
        works(task_id, *ns, given=[call]),
        starts(call["id"], *ns, name=call["name"], **call["args"]),
        *inside,
        finishes(call["id"], message, *ns),
        shown(message, *ns, at=f"tools:{task_id}"),
        updates(*ns, messages=[message]),
        ends(task_id, *ns),
    ]


def turn(*fragments: list[dict[str, Any]], ids: tuple[str, ...], name: str = "add") -> list[Part]:
    """A model turn of fragments, a chunk each, and the execution of the calls that come of it."""
    parts = [called(*pieces) for pieces in fragments] + last(reason="tool_calls")
    for n, id in enumerate(ids):
        parts += runs(tool_call(id, name), f"t{n}")
    return parts


A, B = tool_call("A"), tool_call("B")
SUB = tool_call("A", "task", description="x", subagent_type="komodor")
LANE = ("tools:t0",)


def in_lane(*inside: Part, name: str | None = "komodor", call: dict[str, Any] = SUB) -> list[Part]:
    """A sub-agent's life in the call ``A``, with what it does."""
    node = [works("x", *LANE, name="model", given={}, agent=name), *inside, ends("x", *LANE, name="model")]
    return asks_whole(call) + runs(call, "t0", *node)
