"""A model that reads as the strictest provider does, and threads of several runs as the middle has them."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Any

from langchain_core.messages import convert_to_openai_messages
from pydantic import PrivateAttr

from anabranch import events as ev
from anabranch.demo.model import MODEL, refusal
from anabranch.errors import Cancelled
from anabranch.grammar import Grammar
from anabranch.request import Message, Resume, RunRequest
from anabranch.sources.langgraph import LangGraphSource
from anabranch.transcript import Transcript

from .graphs import Item, Scripted, Turn


class Strict(Scripted):
    """A scripted model that keeps what it heard and refuses what a provider would; ``say`` decides its turns.

    ``repeats``: it is of a provider that gives calls of different turns the same id, and takes them back.
    """

    say: Callable[[list[Any]], Turn] | None = None
    repeats: bool = False
    _heard: list[list[Any]] = PrivateAttr(default_factory=list)
    _refused: list[str] = PrivateAttr(default_factory=list)

    def _turn(self, messages: list[Any]) -> list[Item]:
        self._heard.append(list(messages))
        if offence := self._offence(messages):
            self._refused.append(f"{offence}: {told(messages)}")
            raise AssertionError(self._refused[-1])
        return self.say(messages) if self.say else super()._turn(messages)

    def _offence(self, messages: list[Any]) -> str | None:
        said = convert_to_openai_messages(messages)
        try:
            str(said).encode()
        except UnicodeEncodeError:
            return "half of a surrogate pair"
        if offence := refusal({"model": MODEL, "messages": _told_apart(said) if self.repeats else said}):
            return offence
        # What Anthropic and OpenAI refuse besides.
        for number, message in enumerate(said):
            content, calls = message.get("content"), message.get("tool_calls") or ()
            silent = message["role"] in ("user", "assistant") and isinstance(content, str) and not content.strip()
            if silent and not calls and number < len(said) - 1:
                return f"messages[{number}] says nothing"
            for call in calls:
                if not _ID.fullmatch(call["id"]) or not _NAME.fullmatch(call["function"]["name"]):
                    return f"messages[{number}] has a call {call!r}"
        return None

    @property
    def heard(self) -> list[list[Any]]:
        """What each call of the model was given."""
        return self._heard

    @property
    def refused(self) -> list[str]:
        """Why calls were refused, if any was."""
        return self._refused


_ID, _NAME = re.compile("[A-Za-z0-9_-]{1,40}"), re.compile("[A-Za-z0-9_-]{1,64}")


def _told_apart(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same messages with a number behind each id of a call: that of its turn."""
    out, newest = [], {}
    for number, message in enumerate(messages):
        calls = [{**call, "id": f"{call['id']}-{number}"} for call in message.get("tool_calls") or ()]
        newest |= {call["id"]: f"{call['id']}-{number}" for call in message.get("tool_calls") or ()}
        named = {"tool_call_id": newest.get(message["tool_call_id"])} if "tool_call_id" in message else {}
        out.append({**message, **({"tool_calls": calls} if calls else {}), **named})
    return out


def told(messages: Iterable[Any]) -> list[tuple[str, Any]]:
    """What a model was given, shortly: kind and text, the ids of calls, or the id and text of a result."""
    out: list[tuple[str, Any]] = []
    for message in messages:
        if message.type == "tool":
            out.append(("tool", (message.tool_call_id, message.text)))
        elif message.type == "ai" and message.tool_calls:
            out.append(("calls", [call["id"] for call in message.tool_calls]))
        else:
            out.append((message.type, message.text))
    return out


class Thread:
    """Runs of one graph on one thread. ``messages`` is the conversation as the middle keeps it."""

    def __init__(self, graph: Any) -> None:
        self.source = LangGraphSource(_Durable(graph, self))
        self.durability = "async"
        self.memory_key = "k"
        self.messages: list[Message] = []
        self.asked: dict[str, str] = {}
        self._numbers = itertools.count(1)

    async def says(self, *texts: str, until: Callable[[Any], bool] | None = None) -> list[ev.Event]:
        """A run on these user messages, cancelled after the part that ``until`` picks."""
        n = next(self._numbers)
        news = [Message(id=f"u{n}.{k}", role="user", content=text) for k, text in enumerate(texts)]
        return await self.adds(*news, until=until, number=n)

    async def adds(
        self, *news: Message, until: Callable[[Any], bool] | None = None, number: int | None = None
    ) -> list[ev.Event]:
        """A run on any messages."""
        self.messages += news
        return await self._run(number or next(self._numbers), until, news=len(news))

    async def answers(self, *answers: Resume, until: Callable[[Any], bool] | None = None) -> list[ev.Event]:
        """A run that answers questions, named as the graph names them."""
        return await self._run(next(self._numbers), until, resume=answers, news=0)

    async def _run(self, n: int, until: Callable[[Any], bool] | None, **more: Any) -> list[ev.Event]:
        named: dict[str, Any] = {"run_id": f"run-{n}", "thread_id": "t", "memory_key": self.memory_key}
        request = RunRequest(**named, messages=tuple(self.messages), **more)
        grammar, transcript, translator = Grammar(), Transcript(), self.source.translator(request)
        out = grammar.feed(ev.RunStarted(run_id=request.run_id, thread_id="t"))
        error: BaseException | None = None
        try:
            async with asyncio.timeout(20), aclosing(self.source.open(request)) as parts:
                async for part in parts:
                    for event in translator.feed(part):
                        out += grammar.feed(event)
                    if until is not None and until(part):
                        error = Cancelled("The run was cancelled.")
                        break
        except Exception as failure:
            error = failure
        for event in translator.close(error):
            out += grammar.feed(event)
        out += grammar.close(error)
        for event in out:
            transcript.feed(event)
        outcome = transcript.outcome()
        self.messages += outcome.messages
        self.asked = {each.origin_id: each.interrupt_id for each in outcome.asked}
        if isinstance(error, AssertionError):
            raise error
        return out


class _Durable:
    """The graph, with the durability that its thread has."""

    def __init__(self, graph: Any, thread: Thread) -> None:
        self._graph, self._thread = graph, thread

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    def astream(self, *given: Any, **more: Any) -> Any:
        return self._graph.astream(*given, **more, durability=self._thread.durability)
