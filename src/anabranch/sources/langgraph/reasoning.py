"""The chat model that supervisors use: ChatOpenAI with what it drops or spoils of OpenAI-compatible streams put right.

- ``delta.reasoning_content`` (DeepSeek, Qwen, xAI; ``reasoning`` at some gateways) is kept, in ``additional_kwargs``,
  and a refusal is text.
- Fields of a wrong type (labels that are numbers, text in blocks) are put right (``_dialect.in_form``), and halves of
  characters are not sent back to the endpoint.
- Tool calls without an id, or with one that another call of the turn has, get one of their own.
- Tool call fragments are put into one form (``_dialect.Router``) before LangChain merges them: it would join repeated
  names, split a call whose id changes, and take every fragment without an index for a call of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from ...errors import MissingExtra
from .._dialect import Router, in_form
from .._foreign import as_it_is, plain

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
        chunk = in_form(chunk)
        generation = super()._convert_chunk_to_generation_chunk(chunk, *args)
        if generation is not None and (choices := chunk.get("choices")):
            thought = choices[0]["delta"].get("reasoning_content")
            if thought:
                generation.message.additional_kwargs["reasoning_content"] = thought
        return generation

    def _get_request_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        payload = super()._get_request_payload(*args, **kwargs)
        return {**payload, "messages": plain(payload["messages"], as_it_is)} if "messages" in payload else payload

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        router = Router(_mint)
        for chunk in super()._stream(*args, **kwargs):
            _unify(chunk.message, router)
            yield chunk

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        router = Router(_mint)
        async for chunk in super()._astream(*args, **kwargs):
            _unify(chunk.message, router)
            yield chunk


def _mint() -> str:
    return f"call_{uuid.uuid4().hex}"


def _unify(message: Any, router: Router) -> None:
    """Each call in the form LangChain expects: an index on every fragment, id and name on the first one only."""
    for fragment in message.tool_call_chunks:
        position, begins, call_id = router.route(fragment["index"], fragment["id"], fragment["name"])
        fragment["index"], fragment["id"] = position, call_id
        fragment["name"] = fragment["name"] if begins else None
    if message.tool_call_chunks:
        message.additional_kwargs.pop("function_call", None)  # the legacy form of the same fragment
