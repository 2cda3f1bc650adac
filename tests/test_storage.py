"""Where runs are kept: what a URL means, and which are refused."""

import asyncio
from pathlib import Path

import pytest

from anabranch.errors import ConfigError
from anabranch.events import RunFinished
from anabranch.log._base import Entry
from anabranch.runs._base import RunRecord
from anabranch.runs.machine import Status
from anabranch.storage import Storage, open_storage

WAIT_S = 10
ENTRIES = [Entry(1, 1, 1, RunFinished())]
RUN = RunRecord(
    key="run",
    run_id="r",
    principal="ann",
    thread_id="t",
    task_id="",
    agent="a",
    status=Status.QUEUED,
    digest="",
    created_ms=1,
)


async def used(storage: Storage) -> list[Entry]:
    """Write to it, close it twice, and what was read before."""
    async with asyncio.timeout(WAIT_S):
        await storage.table.create(RUN)
        await storage.log.append("run", ENTRIES)
        assert await storage.table.active() == [RUN]
        got = list(await storage.log.read("run"))
        await storage.aclose()
        await storage.aclose()
    return got


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("memory://", ""),
        ("sqlite:///a.db", "a.db"),
        ("sqlite:///below/a%20b%3F.db", "below/a b?.db"),
        ("sqlite:///./a#1.db", "a#1.db"),
        ("sqlite:///{root}/b.db", "b.db"),
        ("sqlite:///{root}/b.db?synchronous=full", "b.db"),
        ("sqlite:///b.db?synchronous=normal", "b.db"),
    ],
)
def test_a_url_names_a_storage_which_needs_no_loop_to_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    storage = open_storage(url.format(root=tmp_path))
    assert asyncio.run(used(storage)) == ENTRIES
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.suffix == ".db"} == (
        {name} if name else set()
    )


async def test_a_closed_file_is_free_for_the_next_and_has_everything(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    first = open_storage(url)
    with pytest.raises(ConfigError, match="is using it"):
        open_storage(url)
    await used(first)
    second = open_storage(url)
    assert await second.table.find("ann", "r") == RUN
    assert await second.log.read("run") == ENTRIES
    await second.aclose()


@pytest.mark.parametrize(
    "url",
    ["", "memory", "memory:///", "sqlite", "sqlite://", "sqlite:///", "sqlite://a.db", "sqlite:///:memory:", "a.db"]
    + ["mysql://h/d", "SQLITE:///a.db"],
)
def test_any_other_url_is_refused_with_the_choices(url: str) -> None:
    with pytest.raises(ConfigError, match="memory://.*sqlite:///FILE") as raised:
        open_storage(url)
    assert repr(url) in str(raised.value)


@pytest.mark.parametrize("query", ["synchronous=off", "synchronous=", "mode=ro", "synchronous=full&cache=1"])
def test_an_unknown_option_is_refused_and_nothing_is_made(tmp_path: Path, query: str) -> None:
    with pytest.raises(ConfigError, match="synchronous=") as raised:
        open_storage(f"sqlite:///{tmp_path}/a.db?{query}")
    assert query in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as raised:
        open_storage("postgresql://ann:hunter2@host/db")
    assert "hunter2" not in str(raised.value)
