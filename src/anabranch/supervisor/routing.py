"""Who answers: one agent, several side by side, or the supervisor. Pure.

The supervisor is always right, and slower by the turns of its model. So a text goes past it only where nothing is in
doubt, and every decision says why. The rules in their order: docs/routing.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from ..errors import ClientError
from .naming import SUPERVISOR, Known, Names, names_of
from .phrases import DEPENDS, FOLLOWS, LINKS, NOT, SHUN, WITHOUT
from .reading import Reading, agents_of

__all__ = ["Decision", "Known", "Mode", "decide", "pins"]

Mode = Literal["on", "off", "explicit"]
"""Of a deployment: route by names too, never route, or only where an agent is addressed (``@name``, a pin)."""

SHORT = 6
"""Words a follow-up may have that names nobody."""


class Decision(msgspec.Struct, frozen=True):
    """Who is asked what. ``reason`` is for users and operators; ``agents`` is empty for the supervisor."""

    route: Literal["direct", "parallel", "supervisor"]
    agents: tuple[str, ...]
    reason: str
    question: str


def decide(
    text: str,
    known: Sequence[Known],
    *,
    mode: Mode = "on",
    pinned: str | Sequence[str] | None = None,
    last: str | None = None,
) -> Decision:
    """Who answers ``text``.

    ``pinned`` are names or aliases that the request gives beside its text, or "supervisor"; one that is not known
    raises ``ClientError`` (``unknown_agent``). ``last`` is the agent of the thread's previous turn, where that was
    direct. The agents are those of ``known``, in the order in which they are named.
    """
    names = names_of(tuple(known))
    chosen = _chosen(pinned, names)
    if mode == "off":
        return Decision("supervisor", (), "routing is off", text)
    if SUPERVISOR in chosen:
        return Decision("supervisor", (), "the request asks for the supervisor", text)
    said = Reading(text, names)
    if chosen:
        return _to(chosen, f"the request asks for {_listed(chosen)}", said)
    return _addressed(said) or _by_name(said, mode, last if last in names.agents else None)


def pins(options: Any) -> tuple[str, ...]:
    """The names that a request's options pin: ``{"anabranch": {"agent": "komodor"}}``, or a list of names.

    Raises ``ClientError`` where ``agent`` is neither. Whether they are known is ``decide``'s to say.
    """
    ours = options.get("anabranch") if isinstance(options, dict) else None
    given = ours.get("agent") if isinstance(ours, dict) else None
    listed = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise ClientError("`anabranch.agent` is not the name of an agent, nor a list of names; send one of the two.")
    return tuple(listed)


def _chosen(pinned: str | Sequence[str] | None, names: Names) -> tuple[str, ...]:
    given = [pinned] if isinstance(pinned, str) else [*(pinned or ())]
    agents = []
    for pin in filter(None, given):
        agent = names.exactly(pin)
        if agent is None:
            there = ", ".join((*names.agents, SUPERVISOR))
            raise ClientError(f"There is no agent {pin!r} here; ask for one of: {there}.", code="unknown_agent")
        agents.append(agent)
    return tuple(dict.fromkeys(agents))


def _addressed(said: Reading) -> Decision | None:
    found = [mention for mention in said.kept if mention.how == "addressed"]
    if not found:
        return None
    agents = agents_of(found)
    called = _listed(tuple(dict.fromkeys(f"@{mention.called}" for mention in found)))
    if any(len(mention.agents) > 1 for mention in found):
        return _supervised(said, f"{called} may be any of {_listed(agents)}")
    if SUPERVISOR in agents:
        return _supervised(said, f"addressed as @{SUPERVISOR}")
    if said.unclear is not None and len(said.leading()) < len(found):
        return _supervised(said, f"`{said.unclear}` may exclude {_listed(agents)}")
    if len(agents) > 1 and (word := said.first_of(DEPENDS)) is not None:
        return _supervised(said, f"`{word}` asks for more than the answers of {_listed(agents)} side by side")
    return _to(agents, f"addressed as {called}", said)


def _by_name(said: Reading, mode: Mode, last: str | None) -> Decision:
    if mode == "explicit":
        return _supervised(said, "no agent is addressed, and here only `@name` or the request itself chooses one")
    if said.cut:
        return _supervised(said, "the text is too long to go by names; `@name` first or last in it chooses an agent")
    if not said.mentions:
        return _follow_up(said, last)
    if (doubt := _doubt(said)) is not None:
        return _supervised(said, doubt)
    agents = agents_of(said.kept)
    if len(agents) > 1:
        return _several(said, agents)
    (agent,) = agents
    if (word := said.first_of(DEPENDS)) is not None:
        return _supervised(said, f"{agent} is named, but `{word}` may need more than its answer")
    called = said.kept[0].called
    return _to(agents, f"only {agent} is named" + (f", as {called}" if called != agent else ""), said)


def _doubt(said: Reading) -> str | None:
    """Why the names in the text do not decide, if they do not."""
    sure, seen = agents_of(said.kept), agents_of(said.mentions)
    for mention in said.kept:
        if len(mention.agents) > 1:
            return f"{mention.called} may be any of {_listed(mention.agents)}"
    if said.unclear is not None:
        return f"`{said.unclear}` may exclude {_listed(sure or seen)}"
    if maybe := [agent for agent in seen if agent not in sure and agent not in said.excluded]:
        return f"{_listed(maybe)} is only part of something longer"
    if not sure:
        return f"{_listed(seen)} is excluded"
    return "more than one question is asked" if said.questions() > 1 else None


def _follow_up(said: Reading, last: str | None) -> Decision:
    if said.quoted:
        return _supervised(said, f"{_listed(said.quoted)} is only in what is quoted")
    if last is None:
        return _supervised(said, "no agent is named")
    if not said.words or len(said.words) > SHORT or not FOLLOWS.at(said.words, 0):
        return _supervised(said, f"no agent is named, and this is no short follow-up to {last}")
    if (word := said.first_of(DEPENDS, NOT, SHUN, WITHOUT)) is not None:
        return _supervised(said, f"no agent is named, and `{word}` may need more than {last}")
    return _to((last,), f"a follow-up to {last}", said)


def _several(said: Reading, agents: tuple[str, ...]) -> Decision:
    if (word := said.first_of(DEPENDS, LINKS)) is not None:
        return _supervised(said, f"`{word}` asks for more than the answers of {_listed(agents)} side by side")
    if not said.side_by_side():
        return _supervised(said, f"{_listed(agents)} are named, but no `and` or list joins them")
    return _to(agents, f"{_listed(agents)} are named, each for itself", said)


def _to(agents: tuple[str, ...], reason: str, said: Reading) -> Decision:
    return Decision("direct" if len(agents) == 1 else "parallel", agents, reason, said.question(agents))


def _supervised(said: Reading, reason: str) -> Decision:
    return Decision("supervisor", (), reason, said.text)


def _listed(agents: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(agents[:-1]), *agents[-1:])))
