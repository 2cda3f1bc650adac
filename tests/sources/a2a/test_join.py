"""A stream that broke off and what follows it: whatever the moments are, what is shown is exact, or said not to be."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from anabranch import events as ev
from anabranch.sources.a2a import A2ATranslator
from anabranch.sources.a2a import _wire as wire
from anabranch.sources.a2a._join import Join

from ._cases import DONE, TASK, USER, artifact, result, says, status, task
from .test_translate import Run

Json = dict[str, Any]


class Server:
    """A task as a server keeps it: what ``GetTask`` answers after so many of its ``items``."""

    def __init__(self, items: list[bytes]) -> None:
        self.items = items

    def snapshot(self, count: int) -> Json:
        kept: Json = {"id": "t", "contextId": "c", "status": {}, "artifacts": [], "history": [USER]}
        for item in self.items[:count]:
            said = json.loads(item)["result"]
            if "statusUpdate" in said:
                if message := kept["status"].get("message"):
                    kept["history"].append(message)
                kept["status"] = said["statusUpdate"]["status"]
            elif "artifactUpdate" in said:
                self._keep(kept["artifacts"], said["artifactUpdate"])
            else:
                kept["status"] = said["task"]["status"]
        return kept

    def _keep(self, artifacts: list[Json], update: Json) -> None:
        new = update["artifact"]
        at = next((n for n, old in enumerate(artifacts) if old["artifactId"] == new["artifactId"]), None)
        if at is None:
            artifacts.append(dict(new))
        elif update.get("append"):
            artifacts[at] = artifacts[at] | {"parts": artifacts[at]["parts"] + new["parts"]}
        else:
            artifacts[at] = new

    def look(self, count: int) -> bytes:
        return wire.looked_up(json.dumps({"jsonrpc": "2.0", "id": "1", "result": self.snapshot(count)}).encode())


class Reader:
    """A reader whose stream broke after ``seen`` items."""

    def __init__(self, server: Server, seen: int) -> None:
        self.server, self.join, self.translator = server, Join(), A2ATranslator()
        self.events: list[ev.Event] = []
        for item in server.items[:seen]:
            self.take(item)

    def take(self, item: bytes) -> None:
        self.events += self.translator.feed(item)

    def look(self, count: int) -> None:
        item = self.server.look(count)
        look = wire.decode(item).look
        assert look is not None and look.result is not None
        self.join.look(look.result)
        self.take(item)

    def tail(self, item: bytes) -> None:
        said = wire.decode(item).result
        assert said is not None
        if (passed := self.join.tail(item, said)) is not None:
            self.take(passed)

    @property
    def ended(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], ev.Terminal)


def rest(chance: Random, server: Server, reader: Reader, seen: int) -> None:
    """Everything that can happen until the task is over: looks and tails at any moment."""
    count, now = len(server.items), seen  # ``now``: what the server has at least done

    def later(moment: int) -> int:
        return min(count, moment + chance.choice((0, 0, 1, 2, count)))

    while not reader.ended and not reader.join.over:
        now = later(now)
        reader.look(now)
        reader.join.tail_begins()
        at = now = later(now)
        if chance.random() < 0.5 and not reader.ended:  # the tail begins with the task, as it is by then
            reader.tail(result(task=server.snapshot(later(at))))
        while at < count and not reader.ended and not reader.join.over and chance.random() < 0.9:
            if reader.join.wanting and chance.random() < 0.5:
                now = later(max(now, at))
                reader.look(now)
            else:
                reader.tail(server.items[at])
                at += 1
        now = max(now, at)


PIECES = st.lists(
    st.tuples(
        st.sampled_from(["one", "one", "one", "two"]),
        st.sampled_from(["a", "a", "a", "b", "ab", "", "é🚀"]),
        st.sampled_from(["add"] * 12 + ["data", "last", "grow", "again", "say", "work"]),
    ),
    max_size=12,
)


def items_of(pieces: list[tuple[str, str, str]]) -> list[bytes]:
    """A task's stream; ``grow`` sends an artifact whole and longer, ``again`` another text in its place."""
    texts: dict[str, str] = {}
    items = [TASK]
    for n, (id, text, what) in enumerate(pieces):
        if what == "say":
            items.append(status("WORKING", says(f"{text}…", id=f"s{n}")))  # no artifact repeats it
        elif what == "work":
            items.append(status("WORKING"))
        elif what == "again" and id in texts:
            texts[id] = f"<{text}"
            items.append(artifact(texts[id], id=id))
        elif what == "grow" and id in texts:
            texts[id] += text
            items.append(artifact(texts[id], id=id))
        else:
            more = [{"data": n}] if what == "data" else []
            text = text if id in texts else text or "-"  # what begins with nothing has no place among the others
            items.append(
                artifact(text, *more, id=id, **({"append": True} if id in texts else {}), lastChunk=what == "last")
            )
            texts[id] = texts.get(id, "") + text
    return items


@settings(deadline=None, database=None, max_examples=300)
@given(st.integers(0, 2**32), PIECES)
def test_whenever_a_stream_breaks_and_whatever_the_tail_begins_with_the_text_is_exact_or_said_not_to_be(
    seed: int, pieces: list[tuple[str, str, str]]
) -> None:
    server = Server([*items_of(pieces), DONE])
    chance = Random(seed)
    seen = chance.randint(1, len(server.items) - 1)
    reader = Reader(server, seen)
    rest(chance, server, reader, seen)
    last, whole = reader.events[-1], Run(server.items).close()
    if isinstance(last, ev.RunFailed):
        assert any(what in ("again", "data") for _, _, what in pieces), "a text that only grows can be continued"
        assert last.code == "agent_disconnected"
        event("given up")
        return
    assert isinstance(last, ev.RunFinished)
    assert reader.translator.text == whole.translator.text
    if not any(what in ("grow", "again") for _, _, what in pieces):  # a snapshot does not have what was replaced
        assert reader.translator.parts == whole.translator.parts


@settings(deadline=None, database=None, max_examples=200)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(["a", "a", "b", "ab", "é🚀"]), max_size=12))
def test_whenever_a_stream_of_status_text_breaks_its_text_is_exact(seed: int, texts: list[str]) -> None:
    said = [status("WORKING", says(text, id=f"m{n}")) for n, text in enumerate(texts)]
    server = Server([task(history=[USER]), status("WORKING"), *said, DONE])
    chance = Random(seed)
    seen = chance.randint(1, len(server.items) - 1)
    reader = Reader(server, seen)
    rest(chance, server, reader, seen)
    assert isinstance(reader.events[-1], ev.RunFinished)
    assert reader.translator.text == "".join(texts)


def test_a_tail_goes_on_token_by_token_as_soon_as_its_place_is_known() -> None:
    texts = ["ha ", "ha ", "one ", "two ", "three ", "four "]
    server = Server([TASK, *(artifact(text, append=n > 0) for n, text in enumerate(texts)), DONE])
    reader = Reader(server, 2)
    reader.look(2)
    reader.join.tail_begins()
    reader.tail(server.items[3])  # "one ": the second "ha " was lost
    assert reader.join.wanting and reader.translator.text == "ha "
    reader.look(5)
    assert reader.translator.text == "ha ha one two "
    reader.tail(server.items[4])
    assert reader.translator.text == "ha ha one two ", "it is in the snapshot"
    reader.tail(server.items[5])
    assert reader.translator.text == "ha ha one two three ", "no other look was needed"
    assert not reader.join.wanting


def test_equal_tokens_have_no_place_until_the_task_is_over() -> None:
    server = Server([TASK, *(artifact("ha ", append=n > 0) for n in range(6)), DONE])
    reader = Reader(server, 2)
    reader.look(2)
    reader.join.tail_begins()
    for item, count in zip(server.items[3:5], (5, 6), strict=True):
        reader.tail(item)
        reader.look(count)
        assert reader.join.wanting is False
    reader.tail(server.items[5])
    assert reader.join.wanting, "it may be the fifth, or one that was shown"
    reader.look(8)
    assert reader.join.over and reader.translator.text == "ha " * 6


def reading(*items: bytes, seen: int = 2) -> Reader:
    """A reader of these items that has looked once since its stream broke, and asks for a tail."""
    reader = Reader(Server([TASK, *items, DONE]), seen)
    reader.look(seen)
    reader.join.tail_begins()
    return reader


def test_nothing_is_passed_on_before_what_came_before_it() -> None:
    reader = reading(artifact("one ", id="1"), artifact("two ", id="2"), artifact("three ", id="3"))
    reader.tail(reader.server.items[3])  # the second artifact was lost
    assert reader.translator.text == "one "
    reader.look(4)
    assert reader.translator.text == "one two three "


def test_an_artifact_that_is_sent_whole_again_has_no_place_in_a_tail() -> None:
    reader = reading(*(artifact("ab", append=n > 0) for n in range(2)), artifact("ababab"), artifact("c", append=True))
    reader.tail(reader.server.items[3])
    reader.look(4)
    reader.tail(reader.server.items[4])
    assert reader.translator.text == "ababab" and reader.join.wanting
    reader = reading(*(artifact("ab", append=n > 0) for n in range(2)), artifact("ababx"), artifact("c", append=True))
    reader.tail(reader.server.items[2])
    reader.look(3)
    for item in reader.server.items[3:5]:
        reader.tail(item)
    assert reader.translator.text == "abab" and reader.join.wanting
    reader = reading(artifact("ab"), artifact("abab"), artifact("ab", append=True))
    reader.tail(reader.server.items[2])
    reader.look(4)
    reader.tail(reader.server.items[3])
    assert reader.translator.text == "ababab", "that was in the snapshot"


def test_what_one_tail_told_says_nothing_about_the_next() -> None:
    reader = reading(*(artifact(text, append=n > 0) for n, text in enumerate("abcdef")))
    reader.tail(reader.server.items[2])
    reader.look(3)
    reader.join.tail_begins()
    reader.tail(reader.server.items[5])  # "c" and "d" were lost
    assert reader.translator.text == "ab" and reader.join.wanting
    reader.look(6)
    reader.tail(reader.server.items[6])
    assert reader.translator.text == "abcdef"


def shown(items: list[bytes]) -> Run:
    return Run(items).close()


def looked(state: str = "COMPLETED", *artifacts: Json, history: list[Json] | None = None, **said: Json) -> bytes:
    task = {"id": "t", "status": {"state": f"TASK_STATE_{state}", **said}, "artifacts": list(artifacts)}
    return wire.looked_up(json.dumps({"result": task | {"history": history or []}}).encode())


def test_what_a_task_holds_that_does_not_continue_what_was_shown_is_never_shown() -> None:
    for now in ("Hal", "Hallo", "", "hello"):
        run = shown([TASK, artifact("Hel"), looked("COMPLETED", {"artifactId": "a", "parts": [{"text": now}]})])
        assert (run.translator.text, run.end) == ("Hel", "agent_disconnected")
        assert "does not continue what it had said" in run.events[-1].message
    run = shown([TASK, artifact("Hel"), looked("COMPLETED", {"artifactId": "b", "parts": [{"text": "Hello"}]})])
    assert (run.translator.text, run.end) == ("Hel", "agent_disconnected")


def test_a_task_that_is_behind_what_was_shown_says_nothing_and_nothing_goes_on_from_it() -> None:
    behind, now = ({"artifactId": "a", "parts": [{"text": text}]} for text in ("He", "Hello"))
    run = shown(
        [TASK, artifact("Hel"), looked("WORKING", behind), looked("WORKING", now), artifact("!", append=True), DONE]
    )
    assert (run.translator.text, run.end) == ("Hello!", "success")
    for rest in (artifact("lo", append=True), DONE, looked("COMPLETED", behind)):
        run = shown([TASK, artifact("Hel"), looked("WORKING", behind), rest])
        assert (run.translator.text, run.end) == ("Hel", "agent_disconnected")


def test_a_message_before_the_end_of_a_task_is_in_no_snapshot() -> None:
    run = shown([TASK, result(message=says("Hi")), looked()])
    assert (run.translator.text, run.end) == ("Hi", "agent_disconnected")


def test_status_text_that_the_history_does_not_have_is_missed_unless_the_answer_is_elsewhere() -> None:
    said = status("WORKING", says("Looking…", id="s"))
    run = shown([TASK, said, looked()])
    assert (run.translator.text, run.end) == ("Looking…", "agent_disconnected")
    run = shown([TASK, said, looked("COMPLETED", {"artifactId": "a", "parts": [{"text": "Three"}]})])
    assert (run.translator.text, run.end) == ("Three", "success")


def test_status_text_goes_on_after_what_was_shown_of_it_and_not_after_what_was_said_before_the_question() -> None:
    history = [says("Which one?", id="q"), USER, says("a", id="s1"), says("b", id="s2")]
    run = shown([status("WORKING", says("a", id="s1")), looked(history=history)])
    assert (run.messages(), run.end) == ([("answer", "ab")], "success")
    run = shown(
        [
            task("WORKING", message=says("a", id="s1")),
            task("WORKING", message=says("a", id="s1")),
            looked(history=history),
        ]
    )
    assert (run.messages(), run.end) == ([("answer", "ab")], "success")


def test_a_tool_notification_cannot_be_told_from_status_text_in_a_history() -> None:
    notice = status("WORKING", says("calling", id="s"), metadata={"tool_notification": True})
    history = [USER, says("calling", id="s"), says("calling again", id="s2")]
    assert shown([TASK, notice, looked(history=history)]).end == "agent_disconnected"
    assert shown([TASK, notice, looked(history=history[:2])]).end == "success"


def test_what_an_agent_had_said_before_the_task_is_not_shown_when_it_is_looked_up() -> None:
    history = [says("Which one?", id="q"), USER, says("I am on it.", id="h")]
    now = looked("COMPLETED", {"artifactId": "a", "parts": [{"text": "Hi"}]}, history=history)
    run = shown([task(history=history), now])
    assert run.messages() == [("answer", "Hi")]


def test_status_text_that_is_told_together_with_the_rest_of_an_artifact_is_not_repeated_by_it() -> None:
    history = [USER, says("a", id="s1"), says("a", id="s2")]
    now = looked("COMPLETED", {"artifactId": "a", "parts": [{"text": "aa"}]}, history=history)
    assert shown([TASK, artifact("a"), now]).messages() == [("answer", "aa"), ("progress", "aa")]
    each = [status("WORKING", says("x", id="s0")), artifact("x")]  # each token as a status, and in the artifact
    history = [USER, *(says(text, id=f"s{n}") for n, text in enumerate("xyz"))]
    now = looked("COMPLETED", {"artifactId": "a", "parts": [{"text": "xyz"}]}, history=history)
    assert shown([TASK, *each, now]).translator.text == "xyz"


def test_a_question_that_came_while_nobody_read_is_asked() -> None:
    run = shown(
        [
            TASK,
            artifact("Two."),
            looked("INPUT_REQUIRED", {"artifactId": "a", "parts": [{"text": "Two."}]}, message=says("Which?")),
        ]
    )
    assert (run.translator.text, run.end) == ("Two.", "interrupted")
