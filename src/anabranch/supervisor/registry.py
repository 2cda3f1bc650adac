"""The agents that the server knows: their cards are looked at, and one that cannot be asked is refused at once.

Thin: the clock and the tasks. When to look and what a look means is ``health``'s.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from contextvars import Context
from datetime import UTC, datetime
from typing import Any

from ..errors import SourceError, describe, scrub
from ..request import RunRequest
from ..sources._base import Translator
from ..sources.a2a import A2ASource
from .health import SEEN, Health, Look

_PATIENCE_S = 2.0  # of who waits for a look, from its beginning
_GLANCE_S = 0.25  # the same for who only wants to tell a model
_SHOWN = 30  # skills
_ERROR, _HEAD = b'"error"', 200  # of an item: whether it may be an error instead of a result
_SUSPICIOUS = frozenset(
    {"agent_unreachable", "agent_auth", "agent_protocol", "agent_disconnected", "agent_timeout_first_byte"}
)

logger = logging.getLogger("anabranch")


class Registered:
    """The A2A agent ``name`` as a source that knows how it is.

    From ``start`` to ``aclose`` its card is looked at in the background, one look at a time, on the server's loop. What
    it says (address, version, skills) counts from the next request on; a run that is under way is not disturbed.

    A request to an agent that is down is refused with ``agent_unavailable`` before anything is sent (``unsent``), but
    first there is one more look, which all who come meanwhile share, so an agent that has come back is used by the next
    request. They wait for it 2 s at most. A request that fails has the agent looked at again.

    ``description`` is the operator's; without it the card's is told. ``has`` says which credentials are configured
    (``About.lacks``). Everything else is the ``source``'s own.
    """

    def __init__(self, name: str, source: A2ASource, *, description: str = "", has: Collection[str] = ()) -> None:
        self.name = name
        self._source, self._description, self._has = source, description, frozenset(has)
        self._health = Health(time.monotonic())
        self._epoch = time.time() - time.monotonic()
        self._looking: asyncio.Task[None] | None = None
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._runs = False
        self._note = ""

    def __getattr__(self, name: str) -> Any:
        """What else the source can do: ``settings``, ``dump``, ``cancel`` and so on."""
        if name == "_source":  # a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self._source, name)

    def translator(self, request: RunRequest) -> Translator:
        """See ``Source``."""
        return self._source.translator(request)

    async def open(self, request: RunRequest, **known: Any) -> AsyncGenerator[bytes, None]:
        """See ``A2ASource.open``. Raises ``SourceError`` (``agent_unavailable``) when the agent is down."""
        if self._health.is_down:
            await self._another_look(_PATIENCE_S)
        if self._health.is_down:
            raise self._refusal()
        item = b""
        try:
            async with aclosing(self._source.open(request, **known)) as items:
                async for item in items:
                    yield item
        except SourceError as error:
            self._failed(error)
            raise
        finally:
            if _ERROR in item[:_HEAD]:  # it refused the request: it may not be what its card said any more
                self._suspect()
        self._note = ""

    def start(self) -> None:
        """Begin to look, on the running loop. May be called again."""
        self._runs = True
        self._plan()

    async def aclose(self) -> None:
        """Look no more, and close the source."""
        self._runs = False
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))
        await self._source.aclose()

    # --- telling -----------------------------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        """What callers may know: no address, no secret."""
        health, about = self._health, self._source.about
        said: dict[str, Any] = {
            "state": health.state,
            "reason": health.reason or self._note or about.lacks(self._has),
            "since": self._iso(health.since),
            "checked": None if health.checked is None else self._iso(health.checked),
            "version": about.version,
            "description": scrub(self._description or about.description),
            "skills": [name for name, _ in about.skills],
        }
        return {name: value for name, value in said.items() if value}

    async def glance(self) -> None:
        """If it is down: a short look, before somebody is told so."""
        if self._health.is_down:
            await self._another_look(_GLANCE_S)

    @property
    def told(self) -> str:
        """What a model is told of it as a tool, by the last look."""
        about = self._source.about
        said = self._description or about.description
        if said and not self._description and about.skills:
            said = f"{said} Its skills: {', '.join(name for name, _ in about.skills[:_SHOWN])}."
        if not said:
            said = f"Ask the agent {self.name} and get its whole answer. The user reads it as it is written."
        if self._health.is_down:
            said = f"{said}\nNOT AVAILABLE at the moment, a call would fail: it {self._health.reason}."
        return said

    def _iso(self, at: float) -> str:
        return datetime.fromtimestamp(self._epoch + at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

    def _refusal(self) -> SourceError:
        since = self._iso(self._health.since)
        text = f"The agent {self.name} is not available since {since}: it {self._health.reason}."
        error = SourceError(text, code="agent_unavailable", retryable=True)
        error.unsent = True
        return error

    # --- looking -----------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Look when it is due."""
        if self._timer is not None:
            self._timer.cancel()
        if self._runs and (self._looking is None or self._looking.done()):
            wait_s = max(0.0, self._health.due - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._look)

    def _look(self) -> asyncio.Task[None]:
        """The look that is under way, or a new one."""
        if self._looking is None or self._looking.done():
            self._began = time.monotonic()
            # A context of its own: it looks for everybody, and not with the headers of who came first.
            self._looking = asyncio.create_task(self._looked(), name=f"look at {self.name}", context=Context())
            self._looking.add_done_callback(lambda task: self._plan())
        return self._looking

    async def _another_look(self, patience_s: float) -> None:
        """Look, or wait for the look that is under way, until it is ``patience_s`` old."""
        look = self._look()
        left_s = self._began + patience_s - time.monotonic()
        if left_s > 0:
            await asyncio.wait((look,), timeout=left_s)

    async def _looked(self) -> None:
        try:
            await self._source.refresh()
            look = SEEN
        except Exception as error:
            known = describe(error)
            look = Look(self._reason(known.code, str(known)), slow=known.code.startswith("agent_timeout"))
        before = self._health.state
        self._health.feed(look, time.monotonic())
        if self._health.state != before:
            logger.info("agent %s is %s: %s", self.name, self._health.state, look.reason or "its card was read")

    def _reason(self, code: str, text: str) -> str:
        reason = scrub(text).removeprefix(f"The agent {self.name} ").rstrip(".")
        return f"{reason}; configure its `auth`" if code == "agent_auth" and not self._has else reason

    def _failed(self, error: SourceError) -> None:
        if error.code in _SUSPICIOUS:
            if error.code == "agent_unreachable" and error.unsent and self._source.is_elsewhere:
                self._note = "the address on its card cannot be reached; configure `url_override: true`"
            self._suspect()

    def _suspect(self) -> None:
        self._health.suspect(time.monotonic())
        self._plan()
