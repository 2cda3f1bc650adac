"""Log entries to the streams and the Tasks of clients of this profile. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from .... import events as ev
from ....log._base import Entry
from ..encode import A2aEncoder
from ..payload import Payload
from ..profile import Profile
from ..task import TaskFold
from .told import CaipeTold
from .write import CaipeWriter


class CaipeEncoder(A2aEncoder):
    """See ``A2aEncoder``. What is written for each event says ``write``."""

    _kind = CaipeTold
    _told: CaipeTold
    _writer: CaipeWriter

    def feed(self, entry: Entry) -> Sequence[bytes]:
        """See ``A2aEncoder.feed``."""
        fact = entry.event
        if type(fact) is ev.TextDelta and fact.message_id in self._heads:
            self._writer.hear(fact.message_id, fact.delta)  # what is written in one step
        return super().feed(entry)

    def state(self) -> bytes:
        """See ``A2aEncoder.state``."""
        self._told.join()
        return super().state()

    def _writing(self) -> CaipeWriter:
        return CaipeWriter(self._told)

    def _task(self, task: Payload) -> Payload:
        """Without the artifacts of earlier runs: these clients show the result that they find in it."""
        return {field: value for field, value in super()._task(task).items() if field != "artifacts"}


class CaipeFold(TaskFold):
    """See ``TaskFold``. It has the artifacts of the newest run: these clients read one result out of it."""

    _writer: CaipeWriter

    def __init__(self, task_id: str = "", context_id: str = "") -> None:
        super().__init__(task_id, context_id)
        self._writer = CaipeWriter(CaipeTold.nothing())

    @property
    def asked(self) -> Mapping[str, ev.Interrupted]:
        """The open questions."""
        return self._writer.told.asked

    def feed(self, entry: Entry) -> None:
        """See ``TaskFold.feed``."""
        if isinstance(entry.event, ev.RunStarted):
            asked, self._writer = self.asked, CaipeWriter(CaipeTold.nothing())
            self._writer.told.asked.update(asked)
            self._artifacts.clear()
        super().feed(entry)

    def task(self, profile: Profile, history_length: int | None = None, artifacts: bool = True) -> Payload:
        """See ``TaskFold.task``."""
        return super().task(msgspec.structs.replace(profile, attributed=True), history_length, artifacts)
