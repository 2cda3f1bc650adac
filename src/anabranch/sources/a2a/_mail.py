"""Requests to one agent, with the credentials that it is to have, and what its refusals mean."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ...errors import SourceError
from .._http import Answer, Client
from . import _wire as wire
from ._about import About
from ._asked import Asked
from ._credential import Credential, Given


class Mail:
    """Sends them. ``about`` is what the agent's card said last, which credentials go by.

    ``refused`` says that the agent did not take a request as one of its own: its card may say otherwise by now.
    """

    def __init__(self, http: Client, extensions: str, credential: Credential | None) -> None:
        self.http, self.about, self.refused = http, About(), False
        self._extensions, self._credential = extensions, credential
        self._given: Given | None = None

    async def aclose(self) -> None:
        """Close all connections."""
        if self._credential is not None:
            await self._credential.aclose()
        await self.http.aclose()

    async def card(self, url: str, known: Mapping[str, str], patient: bool) -> Answer:
        """Most cards are for everybody, and some for those only who have the credential."""
        answer = await self.http.get(url, known, patient=patient)
        if answer.status in (401, 403) and self._credential is not None:
            answer.close()
            return await self._shown(url, lambda url, shown: self.http.get(url, {**known, **shown}, patient=patient))
        return answer

    async def post(
        self,
        asked: Asked,
        method: str,
        params: dict[str, Any],
        *,
        stream: bool = False,
        cursor: str = "",
        sent: Callable[[], object] | None = None,
    ) -> Answer:
        """The answer to a JSON-RPC request. ``sent`` is called when it is on its way."""
        endpoint = asked.endpoint
        body = wire.request(method, params | ({"tenant": endpoint.tenant} if endpoint.tenant else {}))
        headers = {**asked.headers, "Accept": "text/event-stream, application/json"}
        if endpoint.version == wire.VERSION:
            headers |= {"A2A-Version": wire.VERSION}
            headers |= {"A2A-Extensions": self._extensions} if self._extensions else {}
        headers |= {"Last-Event-ID": cursor} if cursor else {}
        return await self._shown(
            endpoint.url,
            lambda url, shown: self.http.post(url, body, {**headers, **shown}, stream=stream, sent=sent),
        )

    async def single(self, answer: Answer, private: Mapping[str, str] | None = None) -> bytes:
        """The one item of an answer that is no stream. ``private``: the headers that this request alone had."""
        if not answer.kind.endswith("json") or answer.status in (401, 403):
            reason = await answer.reason(private)
        else:
            body = await answer.body()
            with contextlib.suppress(SourceError):
                response = wire.decode(body)  # of any version: only whether it is one
                if response.result is not None or response.error is not None:
                    return body
            reason = answer.reason_in(body, private)
        self.refused = True
        raise answer.refusal(reason)

    def hidden(self, item: bytes, asked: Asked) -> bytes:
        """``item``, which tells of a failure, without the credentials that were sent: agents repeat them."""
        given = self._given.secrets if self._given is not None else []
        said = self.http.hide(item.decode(errors="surrogateescape"), asked.headers, given)
        return said.encode(errors="surrogateescape")

    async def _shown(self, url: str, send: Callable[[str, Mapping[str, str]], Awaitable[Answer]]) -> Answer:
        """The answer to a request with the credential. A refusal of one that was good before brings another one."""
        if self._credential is None:
            return await send(url, {})

        async def asked(given: Given) -> Answer:
            self._given = given
            return await send(given.url(url), given.headers)

        answer = await asked(given := await self._credential.given(self.about))
        if answer.status != 401 or not self._credential.refused(given):
            return answer
        answer.close()
        return await asked(await self._credential.given(self.about))
