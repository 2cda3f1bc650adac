"""What of a remote agent's content was shown, so that each piece of it is shown exactly once. Pure.

A2A agents say the same text in several places: as tokens and again as a whole, in an artifact, in a status, in a final
message. Ids tell most of it. Where they cannot, text is compared, and only in these ways:

*cumulative*  An artifact that is sent again whole (``append`` absent), or a message under an id that was there before:
              if it starts with what was shown under that id, the rest is new. An artifact that says something else is
              *replaced*: what was shown is void (``MessageReset``). A message that says something else goes on, and so
              does one that says the same, unless the agent has sent one that grew: equal tokens are no repetition. The
              snapshot of a task may be late: an artifact in it that is shorter than what was shown says nothing new.
*recap*       A text in another place: if it starts with everything said so far, the rest is new; if it equals the end
              of it, from the start of some piece on, nothing is. "So far" is what came under its id for a final message
              or the status of a snapshot whose id was there before; the whole answer for any other final message and
              for the artifacts in ``RECAPS``, whose names say that they repeat; for any other artifact it is the
              status text since the last piece of an artifact: agents that stream tokens as status updates put the
              last message into an artifact at the end (the frameworks Strands and ADK do).

Anything else is shown as it comes, equal neighbours too.

Status text is one message, however many message ids the agent gives to it, because agents give each token its own. It
is part of the answer when an artifact recaps it or when no other text is; otherwise it is progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TypeVar

from ... import events as ev
from ...encodable import whole

RECAPS = frozenset({"final_result", "complete_result", "partial_result", "current_result"})
"""Names of artifacts that hold the whole answer, whether or not it was streamed before (CAIPE agents)."""

ASIDE = frozenset(
    {"tool_notification_start", "tool_notification_end", "tool_output", "status_update", "execution_plan_streaming"}
    | {"execution_plan_update", "execution_plan_status_update"}
)
"""Names of artifacts that tell what the agent does and are no part of the answer (CAIPE agents)."""

ERROR = "error_result"
"""The name of an artifact that says why there is no answer, of agents that call their task completed all the same."""

_Seq = TypeVar("_Seq", str, list[ev.Part])

REPLACED = "the agent replaced what it had said"


class _Body:
    """One artifact, one message or the status text of the remote, and the messages of ours that show it."""

    __slots__ = ("error", "id", "local", "locals", "parts", "phase", "seen", "shown")

    def __init__(self, id: str, phase: ev.Phase) -> None:
        self.id, self.phase = id, phase
        self.local = ""  # the message that is open
        self.locals: list[str] = []  # all messages that show it and are not void
        self.seen: list[str] = []  # its text, as the remote sent it
        self.shown: list[str] = []  # its text, without what was shown elsewhere
        self.parts: list[ev.Part] = []
        self.error = False  # it says what went wrong


class Shown:
    """Everything of one remote task that was shown. The methods give the events that show what is new."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Body] = {}
        self._bodies: list[_Body] = []  # in the order they were first shown
        self._used: set[str] = set()
        self._status = _Body("status", "undetermined")
        self._status_id = ""
        self._status_seen: list[str] = []  # the pieces under that id
        self._cumulative = False  # a text under one id has grown
        self._loose: list[str] = []  # status text since the last piece of an artifact
        self._recapped = False

    @property
    def text(self) -> str:
        """The text of the answer so far: exactly what was sent, nothing between its pieces."""
        return whole("".join(chain.from_iterable(body.shown for body in self._answers())))

    @property
    def parts(self) -> tuple[ev.Part, ...]:
        """What the answer holds besides text."""
        return tuple(chain.from_iterable(body.parts for body in self._answers()))

    @property
    def error(self) -> str | None:
        """What an artifact called ``ERROR`` says, if there is one."""
        errors = ["".join(body.seen) for body in self._known.values() if body.error]
        return whole("".join(errors)) if errors else None

    def behind(self, now: Mapping[str, tuple[str, list[ev.Part]]]) -> bool | None:
        """Whether a task whose artifacts hold this ``now``, by id, lacks some of what was shown of it.

        None: it does not go on from that.
        """
        behind = False
        for (kind, id), body in self._known.items():
            if kind == "artifact" and body.phase == "answer":
                seen, (text, parts) = "".join(body.seen), now.get(id, ("", []))
                if not (_agree(text, seen) and _agree(parts, body.parts)):
                    return None
                behind = behind or len(text) < len(seen) or len(parts) < len(body.parts)
        return behind

    def artifact(
        self,
        id: str,
        name: str,
        text: str,
        parts: list[ev.Part],
        append: bool = False,
        last: bool = False,
        snapshot: bool = False,
    ) -> list[ev.Event]:
        """A piece of an artifact (``append``), or all of it, as it is now or, in a ``snapshot``, as it once was.

        ``last`` seals it; more may come all the same.
        """
        out: list[ev.Event] = []
        body = self._known.get(("artifact", id))
        if body is None:
            aside = name in ASIDE or name == ERROR
            body = self._known["artifact", id] = _Body(id or "artifact", "progress" if aside else "answer")
            body.error = name == ERROR
        elif not append:
            text, parts = self._rest(body, text, snapshot, out), _after(body.parts, parts)
        if text:
            new = text
            if body.phase == "answer":
                if name in RECAPS and not body.seen:
                    new = self._unsaid(text)
                elif self._loose and not (snapshot and body.shown):  # status text that is told with it may be younger
                    new = self._unechoed(text)
                self._loose = []
            body.seen.append(text)
            text = new
        self._say(body, text, parts, out)
        if last:
            self._close(body, out)
        return out

    def void(self, id: str) -> list[ev.Event]:
        """What was shown of an artifact counts no more, and nothing takes its place under this id."""
        out: list[ev.Event] = []
        body = self._known.get(("artifact", id))
        if body is not None and (void := self._empty(body, out)):
            self._bodies.remove(body)
            out.extend(ev.MessageReset(message_id=id, superseded_by="", reason=REPLACED) for id in void)
        return out

    def message(self, id: str, text: str, parts: list[ev.Part], last: bool = False) -> list[ev.Event]:
        """A message of the agent that is part of its answer: the only one, or the one at the end (``last``)."""
        out: list[ev.Event] = []
        body = self._known.get(("message", id)) if id else None
        if body is None:
            body = self._known["message", id] = _Body(id or "message", "answer")
            new = self._unsaid(text)
        else:
            text = new = self._more(body.seen, text, last)
            parts = _after(body.parts, parts)
        body.seen.append(text)
        self._say(body, new, parts, out)
        return out

    def status(self, id: str, text: str, parts: list[ev.Part], snapshot: bool = False) -> list[ev.Event]:
        """What the agent says while it works. An id that was the last one's goes on, or says the same thing longer."""
        out: list[ev.Event] = []
        if not text and not parts:
            return out
        if id and id == self._status_id:
            text, parts = self._more(self._status_seen, text, snapshot), _after(self._status.parts, parts)
        else:
            self._status_id, self._status_seen = id, []
        self._status_seen.append(text)
        if text:
            self._loose.append(text)
        self._say(self._status, text, parts, out)
        return out

    def aside(self, id: str, text: str, parts: list[ev.Part]) -> list[ev.Event]:
        """Something beside the answer, complete in itself: which tool is called, why the task was cancelled."""
        out: list[ev.Event] = []
        key = "aside", f"{id} {text}"
        if not id or key not in self._known:
            body = self._known[key] = _Body(id or "aside", "progress")
            self._say(body, text, parts, out)
            self._close(body, out)
        return out

    def finish(self) -> list[ev.Event]:
        """Close everything: nothing more will come."""
        out: list[ev.Event] = []
        self._status.phase = "answer" if self._status in self._answers() else "progress"
        for body in self._bodies:
            self._close(body, out)
        return out

    def go_on(self) -> None:
        """More comes, after the user has answered."""
        self._status.phase = "undetermined"

    # --- deciding ----------------------------------------------------------------------------------------------

    def _answers(self) -> list[_Body]:
        """What the answer is, as far as that is known: with the status text when no other text is."""
        given = [body for body in self._bodies if body.phase == "answer"]
        if any(body.shown for body in given) and not self._recapped:
            return given
        return [body for body in self._bodies if body.phase != "progress"]

    def _more(self, seen: list[str], text: str, again: bool) -> str:
        """What is new in a text under an id that was ``seen`` in these pieces; ``again``: it may repeat them."""
        if again:
            return text[_repeated(seen, text) :]
        so_far = "".join(seen)
        if text == so_far:
            return "" if self._cumulative else text
        if not so_far or not text.startswith(so_far):
            return text
        self._cumulative = True
        return text[len(so_far) :]

    def _unsaid(self, text: str) -> str:
        """What is new in a text that may repeat the whole answer: its artifacts, or those and the status text."""
        bodies = [body for body in self._bodies if body.phase != "progress"]
        given = _repeated([piece for body in bodies if body is not self._status for piece in body.shown], text)
        skip = _repeated([piece for body in bodies for piece in body.shown], text)
        self._recapped |= skip > given
        return text[max(skip, given) :]

    def _unechoed(self, text: str) -> str:
        """What is new in a piece of an artifact that may repeat the status text before it."""
        skip = _repeated(self._loose, text)
        self._recapped |= skip > 0
        return text[skip:]

    def _rest(self, body: _Body, text: str, snapshot: bool, out: list[ev.Event]) -> str:
        """What is new in an artifact that is sent again whole. One without text says nothing about its text."""
        seen = "".join(body.seen)
        if not text or text.startswith(seen) or (snapshot and seen.startswith(text)):
            body.seen = [seen]
            return text[len(seen) :]
        if void := self._empty(body, out):
            local = self._mint(body.id)
            out.extend(ev.MessageReset(message_id=id, superseded_by=local, reason=REPLACED) for id in void)
            self._open(body, local, out)
        return text

    def _empty(self, body: _Body, out: list[ev.Event]) -> list[str]:
        """Forget what ``body`` said; the messages that showed it."""
        self._close(body, out)
        void, body.locals, body.seen, body.shown, body.parts = body.locals, [], [], [], []
        return void

    # --- showing -----------------------------------------------------------------------------------------------

    def _say(self, body: _Body, text: str, parts: list[ev.Part], out: list[ev.Event]) -> None:
        if not body.local:
            if not text and not parts:
                return
            if not body.locals:
                self._bodies.append(body)
            self._open(body, self._mint(body.id), out)
        if text:
            body.shown.append(text)
            out.append(ev.TextDelta(message_id=body.local, delta=text))
        for part in parts:
            body.parts.append(part)
            out.append(ev.PartAdded(message_id=body.local, part=part))

    def _open(self, body: _Body, local: str, out: list[ev.Event]) -> None:
        body.local = local
        body.locals.append(local)
        out.append(ev.MessageStarted(message_id=local, phase=body.phase))

    def _close(self, body: _Body, out: list[ev.Event]) -> None:
        if body.local:
            out.append(ev.MessageFinished(message_id=body.local, phase=body.phase))
            body.local = ""

    def _mint(self, id: str) -> str:
        """A local id that no message has: ``id`` itself for the first one."""
        local, n = id, 1
        while local in self._used:
            n += 1
            local = f"{id}#{n}"
        self._used.add(local)
        return local


def _repeated(said: list[str], text: str) -> int:
    """How much of ``text``, from its start, repeats what was ``said`` (see *recap* above)."""
    everything = "".join(said)
    if everything and text.startswith(everything):
        return len(everything)
    if text and everything.endswith(text):
        start = len(everything) - len(text)
        for piece in said:
            if start == 0:
                return len(text)
            start -= len(piece)
    return 0


def _agree(now: _Seq, shown: _Seq) -> bool:
    size = min(len(now), len(shown))
    return now[:size] == shown[:size]


def _after(shown: list[ev.Part], parts: list[ev.Part]) -> list[ev.Part]:
    """The parts that were not shown: the same ones may be sent again, alone or with more after them."""
    if shown[-len(parts) :] == parts:
        return []
    return parts[len(shown) :] if parts[: len(shown)] == shown else parts
