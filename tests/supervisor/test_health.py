"""When an agent may be asked, and when it is looked at again: a table of what is seen and what follows."""

import pytest

from anabranch.supervisor.health import SEEN, Health, Look

GONE, SLOW = Look("cannot be reached"), Look("did not show its card in time", slow=True)


def fed(*events: tuple[float, Look | None]) -> Health:
    """Looks, or None for a request that failed, each at its time."""
    health = Health(0.0)
    for now, look in events:
        if look is None:
            health.suspect(now)
        else:
            health.feed(look, now)
    return health


@pytest.mark.parametrize(
    ("events", "state", "since", "due"),
    [
        pytest.param([], "unknown", 0, 0, id="nobody has looked: at once"),
        pytest.param([(1, SEEN)], "up", 1, 61, id="seen"),
        pytest.param([(1, SEEN), (61, SEEN)], "up", 1, 121, id="seen again"),
        pytest.param([(1, GONE)], "down", 1, 2, id="never there"),
        pytest.param([(1, SEEN), (61, GONE)], "down", 61, 62, id="gone"),
        pytest.param([(1, GONE), (9, SEEN)], "up", 9, 69, id="back"),
        pytest.param([(1, GONE), (9, SEEN), (69, GONE)], "down", 69, 70, id="the backoff starts anew"),
        pytest.param([(1, GONE), (5, Look("refuses"))], "down", 1, 9, id="down for another reason"),
        pytest.param([(1, SLOW)], "down", 1, 2, id="slow, and never seen"),
        pytest.param([(1, SEEN), (61, SLOW)], "up", 1, 62, id="slow once: it may be busy"),
        pytest.param([(1, SEEN), (61, SLOW), (62, SLOW)], "down", 62, 63, id="slow twice"),
        pytest.param([(1, SEEN), (61, SLOW), (62, SEEN), (122, SLOW)], "up", 1, 123, id="slow now and then"),
        pytest.param([(1, SEEN), (30, None)], "up", 1, 30, id="a request failed: at once"),
        pytest.param([(1, SEEN), (1.2, None)], "up", 1, 2, id="but not twice within a second"),
        pytest.param([(1, SEEN), (30, None), (30.5, None)], "up", 1, 30, id="nor later for a second failure"),
        pytest.param([(0.5, None)], "unknown", 0, 0, id="a request failed before the first look"),
        pytest.param([(1, GONE), (1.1, None)], "down", 1, 2, id="a failure does not hold a look back"),
    ],
)
def test_what_is_seen_decides_the_state_and_the_next_look(events, state, since, due):
    health = fed(*events)
    assert (health.state, health.since, health.due) == (state, since, due)
    assert health.is_down == (state == "down") == bool(health.reason)


def test_an_agent_that_stays_away_is_looked_at_ever_more_rarely_and_at_least_every_30_s():
    health, gaps = Health(0.0), []
    for _ in range(9):
        now = health.due
        health.feed(GONE, now)
        gaps.append(health.due - now)
    assert gaps == [1, 1, 2, 4, 8, 16, 30, 30, 30]
    assert (health.failures, health.reason, health.since) == (9, "cannot be reached", 0.0)


def test_looks_between_the_planned_ones_do_not_make_the_planned_ones_rarer():
    health = fed((0, GONE), *((1 + n / 100, GONE) for n in range(100)))
    assert health.due == pytest.approx(1.99 + 1.99)


def test_the_newest_reason_is_told():
    assert fed((0, GONE), (1, Look("refused our credentials"))).reason == "refused our credentials"
