"""Any OpenAI-compatible chat endpoint (``/chat/completions``, streamed) as a source."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ...errors import ClientError, ConfigError, SourceError, scrub
from ...request import RunRequest
from ...transports.sse import Parser
from .._http import Answer, Client
from . import tape
from ._failures import explain
from ._history import conversation, tools
from ._wire import DONE
from .translate import OpenAITranslator, called

_OURS = ("messages", "model", "n", "stream", "stream_options")
_BLANK = b"\xef\xbb\xbf \t\r\n"


class OpenAISource:
    """The model ``model`` at the endpoint whose base address is ``url`` (such as ``https://api.example.com/v1``).

    It gets the whole conversation with each run, after ``instructions``; nothing is kept here. Tools that the client
    offers are offered to the model, beside ``options["tools"]``, and are the client's to execute. ``options`` go into
    each request as they are (``temperature``, ``max_tokens``, ``tool_choice``...), ``api_key`` as a bearer token, and
    ``headers`` and what ``forward`` gives when a run begins, too. Times are in seconds, and there is no limit to the
    whole: ``connect_s`` to get a connection, ``first_byte_s`` until the first byte of the answer, ``idle_s`` between
    bytes afterwards (a comment counts). An
    endpoint that does not stream sends its first byte when it is done. ``pool`` limits the connections at once; 0 is no
    limit. Items are the raw ``data`` of the stream's events, as bytes, or the body of an answer that is no stream.

    *At most once.* Only a connection that could not be made is tried again, twice, after 0.1 and 0.4 s. A request that
    may have been read is never sent again, with one exception: an endpoint that refuses it because of
    ``stream_options`` (HTTP 400 or 422 that names it) has done no work, and is asked again without.

    *Credentials stay.* Redirects are not followed, so the key is only ever sent to ``url``.

    *Cancel is real.* Closing the stream, or cancelling the task that reads it, closes the connection at once, by which
    an endpoint knows that nobody waits for the rest.

    Errors are ``SourceError`` with one of the codes ``model_unreachable``, ``model_auth``, ``model_rate_limited``,
    ``model_error``, ``model_protocol``, ``model_disconnected``, ``model_timeout_first_byte``, ``model_timeout_idle``,
    and ``protocol`` for an event of more than 16 MiB; ``MissingExtra`` without aiohttp. Use one object in one event
    loop, and ``aclose`` it.
    """

    kind = "openai"
    dump = staticmethod(tape.dump)

    def __init__(
        self,
        url: str,
        *,
        model: str,
        api_key: str = "",
        instructions: str = "",
        options: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        connect_s: float = 5.0,
        first_byte_s: float = 60.0,
        idle_s: float = 60.0,
        forward: Callable[[], Mapping[str, str]] = dict,
        pool: int = 0,
    ) -> None:
        self._url = _endpoint(url)
        self._model, self._instructions, self._options = model, instructions, dict(options or {})
        if taken := [name for name in _OURS if name in self._options]:
            raise ConfigError(f"The options of a model may not hold {', '.join(taken)}: remove it.")
        self._http = Client(
            called(model),
            {**({"Authorization": f"Bearer {api_key}"} if api_key else {}), **(headers or {})},
            kind="model",
            speaks="the OpenAI protocol",
            extra="openai",
            connect_s=connect_s,
            first_byte_s=first_byte_s,
            idle_s=idle_s,
            pool=pool,
        )
        self._forward = forward
        self._counts = True  # the endpoint takes the option that makes it report usage

    def settings(self, request: RunRequest) -> dict[str, Any]:
        """Of the translator: what the model is called, and which tools are the client's."""
        return {"model": self._model, "tools": [tool.name for tool in request.tools]}

    def translator(self, request: RunRequest) -> OpenAITranslator:
        """A fresh translator for the items of ``open(request)``."""
        return tape.translator(self.settings(request))

    async def open(self, request: RunRequest) -> AsyncGenerator[bytes, None]:
        """Send the conversation and give the items of the answer.

        Raises ``ClientError`` when there is nothing to send, and ``SourceError`` as told above.
        """
        answer = await self._send(request)
        over = False
        try:
            chunk = await _begun(answer)
            lead = chunk[:1]
            if lead in (b"{", b"["):  # whatever its type says: some call a stream JSON, or JSON a stream
                yield chunk + await answer.body()
                return
            if lead == b"<" or answer.kind == "text/html":
                raise answer.refusal()
            parser = Parser()
            while chunk:
                for event in parser.feed(chunk):
                    over = event.data.strip() == DONE
                    yield event.data
                    if over:
                        return
                chunk = await answer.read()
            if parser.close():
                text = f"{self._http.who} stopped inside an event."
                raise SourceError(text, code="model_disconnected", retryable=True)
        finally:
            if over:  # the end of the stream comes right after its last item
                await answer.drain()
            answer.close()

    async def aclose(self) -> None:
        """Close all connections; what still streams on them fails."""
        await self._http.aclose()

    async def _send(self, request: RunRequest) -> Answer:
        """The answer to ``request``, which is none of an HTTP error."""
        headers = {**self._forward(), "Accept": "text/event-stream, application/json"}
        while True:
            counts = self._counts
            answer = await self._http.post(self._url, self._body(request, counts), headers, stream=True)
            if 200 <= answer.status < 300:
                return answer
            try:
                refused = await self._refused(answer, counts)
            finally:
                answer.close()
            if refused is not None:
                raise refused
            self._counts = False

    async def _refused(self, answer: Answer, counts: bool) -> SourceError | None:
        """Why the endpoint did not answer; None when it is to be asked again, without ``stream_options``."""
        if answer.status < 400:
            return answer.refusal()
        body = self._http.hide((await answer.body()).decode(errors="replace"))
        if counts and answer.status in (400, 422) and "stream_options" in body:
            return None
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            said = None  # a page of a proxy
        error = explain(said, self._http.who, answer.status)
        error.__cause__ = ValueError(scrub(body))
        return error

    def _body(self, request: RunRequest, counts: bool) -> bytes:
        messages = conversation(request.messages, self._instructions)
        if not messages:
            raise ClientError("There is nothing to answer: send a message.")
        offered = [*self._options.get("tools", ()), *tools(request.tools)]
        body = self._options | {"model": self._model, "messages": messages, "stream": True}
        if counts:
            body["stream_options"] = {"include_usage": True}
        if offered:
            body["tools"] = offered
        return msgspec.json.encode(body)


async def _begun(answer: Answer) -> bytes:
    """The first bytes of the answer that tell what it is: some send blank lines while they think."""
    while chunk := await answer.read():
        if head := chunk.lstrip(_BLANK):
            return head
    return b""


def _endpoint(url: str) -> str:
    """Where completions are, below ``url`` (whose query is kept)."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError
    except ValueError:
        flaw = f"must be an http:// or https:// URL, not {scrub(url)!r}"
        raise ConfigError(f"The address of an OpenAI-compatible endpoint {flaw}.") from None
    path = parts.path.rstrip("/").removesuffix("/chat/completions") + "/chat/completions"
    return parts._replace(path=path, fragment="").geturl()
