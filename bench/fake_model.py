"""A chat model that says as many tokens as it is told, at once: LangChain's own cost and nobody else's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


class FakeModel(BaseChatModel):
    """``tokens`` tokens a turn."""

    tokens: int

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """No tools: it never calls one."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("done"))])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for n in range(self.tokens):
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"token {n} "))
        end = {"finish_reason": "stop"}
        yield ChatGenerationChunk(message=AIMessageChunk(content="", chunk_position="last", response_metadata=end))
