"""The chat model that supervisors use: ChatOpenAI with what it drops or spoils of OpenAI-compatible streams put right.

- ``delta.reasoning_content`` (DeepSeek, Qwen, xAI; ``reasoning`` at some gateways) is kept, in ``additional_kwargs``.
- Tool call fragments are put into one form (``_dialect.Router``) before LangChain merges them: it would join repeated
  names, split a call whose id changes, and take every fragment without an index for a call of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from ...errors import MissingExtra
from ._dialect import Router

try:
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr
except ImportError:
    raise MissingExtra("langchain-openai", "langgraph") from None

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.outputs import ChatGenerationChunk


def chat_model(*, name: str, base_url: str | None, api_key: str, **options: Any) -> BaseChatModel:
    """The model ``name`` at an OpenAI-compatible endpoint, over chat completions, reporting its usage.

    ``options`` are ChatOpenAI's own (``temperature``, ``timeout``, ``max_retries``, ...).
    """
    defaults: dict[str, Any] = {"use_responses_api": False, "stream_usage": True}
    return _ReasoningChatOpenAI(model=name, base_url=base_url, api_key=SecretStr(api_key), **defaults | options)


class _ReasoningChatOpenAI(ChatOpenAI):
    def _convert_chunk_to_generation_chunk(self, chunk: dict[str, Any], *args: Any) -> ChatGenerationChunk | None:
        generation = super()._convert_chunk_to_generation_chunk(chunk, *args)
        choices = chunk.get("choices")
        delta = choices[0].get("delta") if choices else None
        if generation is not None and delta:
            thought = delta.get("reasoning_content") or delta.get("reasoning")
            if isinstance(thought, str) and thought:
                generation.message.additional_kwargs["reasoning_content"] = thought
        return generation

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        router = Router()
        for chunk in super()._stream(*args, **kwargs):
            _unify(chunk.message, router)
            yield chunk

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        router = Router()
        async for chunk in super()._astream(*args, **kwargs):
            _unify(chunk.message, router)
            yield chunk


def _unify(message: Any, router: Router) -> None:
    """Each call in the form LangChain expects: an index on every fragment, id and name on the first one only."""
    for fragment in message.tool_call_chunks:
        fragment["index"], begins, identified = router.route(fragment["index"], fragment["id"], fragment["name"])
        fragment["id"] = fragment["id"] if identified else None
        fragment["name"] = fragment["name"] if begins else None
    if message.tool_call_chunks:
        message.additional_kwargs.pop("function_call", None)  # the legacy form of the same fragment
