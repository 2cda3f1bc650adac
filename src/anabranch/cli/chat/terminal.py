"""Draws a screen. On a terminal the lines that grow stay at the bottom; finished ones scroll away above them, whole, so
that they can be copied and searched. Where there is no terminal only finished lines are written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, TextIO

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from .screen import Kind, Line, Screen

REFRESH_S = 0.06
"""How long a change may wait until it is drawn: one drawing shows all that came meanwhile."""

_STYLES: dict[Kind, str] = {
    "reasoning": "dim",
    "tool": "yellow",
    "note": "dim",
    "route": "dim",
    "error": "red",
    "plan": "bold",
}
_COLOURS = ("cyan", "magenta", "green", "blue")
_ROW = 10_000  # characters that are looked at for one row; arguments may have millions
_NAME_CELLS = 8  # names are aligned to this, so that short ones have their bars in a line


class Terminal:
    """Shows the events of runs, in an event loop; enter it for each run. ``reasoning`` shows what models think."""

    def __init__(self, out: TextIO, *, reasoning: bool = True) -> None:
        self._console = Console(file=out, highlight=False, force_terminal=out.isatty())
        self._drawn = self._console.is_terminal and not self._console.is_dumb_terminal
        self._reasoning = reasoning
        self._screen = Screen(reasoning=reasoning)
        self._live: Live | None = None
        self._due: asyncio.TimerHandle | None = None
        self._finished: list[Line] = []
        self._colours: dict[str, str] = {}

    def __enter__(self) -> Terminal:
        self._screen = Screen(reasoning=self._reasoning)
        if self._drawn:
            # No thread draws: this one does, when it has taken what came.
            self._live = Live(
                self,
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finished += self._screen.close()
        self._draw()
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def show(self, events: Iterable[dict[str, Any]]) -> None:
        """Take events."""
        for event in events:
            self._finished += self._screen.feed(event)
        if self._live is None:
            self._draw()
        elif self._due is None:
            self._due = asyncio.get_running_loop().call_later(REFRESH_S, self._draw)

    def say(self, text: str) -> None:
        """Write a line of this program's own, above what grows."""
        self._draw()
        self._console.print(Text(text, "dim"), soft_wrap=True)

    def _draw(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        lines, self._finished = self._finished, []
        if lines:
            whole = Text("\n").join(self._whole(line) for line in lines)
            self._console.print(whole, soft_wrap=True)
        elif self._live is not None:
            self._live.refresh()

    def _whole(self, line: Line) -> Text:
        """A finished line. A call's is cut to one row, a text is never cut."""
        row = line.kind in ("tool", "note")
        said = (line.head + line.text)[: _ROW if row else None]
        text = Text.assemble(self._lane(line), (said, _STYLES.get(line.kind, "")))
        if row:
            text.truncate(self._console.width, overflow="ellipsis")
        return text

    def _lane(self, line: Line) -> tuple[str, str]:
        if not line.lane:
            return "", ""
        colour = self._colours.setdefault(line.lane, _COLOURS[len(self._colours) % len(_COLOURS)])
        return f"{'  ' * line.depth}{' ' * (_NAME_CELLS - cell_len(line.lane))}{line.lane} | ", colour

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What grows: the end of each open line, as many rows of it as there is room for; the plan above them."""
        growing, plan = self._screen.open, self._screen.plan
        rows = max(console.height - 2, 1)
        plan = plan[: max(rows - len(growing), 0)]
        growing = growing[-rows:]
        for item in plan:
            yield Text(item.text, _STYLES["plan"], no_wrap=True, overflow="ellipsis")
        for line in growing:
            yield from self._tail(line, max((rows - len(plan)) // len(growing), 1), options.max_width)

    def _tail(self, line: Line, rows: int, width: int) -> Iterable[Text]:
        style = _STYLES.get(line.kind, "")
        lane, colour = self._lane(line)
        if line.kind == "tool":
            rest, room = line.text[-width:], max(width - cell_len(lane + line.head), 8)
            while cell_len(rest) > room:
                rest = rest[1:]
            yield Text.assemble((lane, colour), (line.head + rest, style), no_wrap=True, overflow="crop")
            return
        # Cut as the terminal itself cuts a line that is too long, so that nothing moves when the line is finished.
        text = lane + line.head + line.text.expandtabs(8)
        kept = chop_cells(text[-rows * width :], width)[-rows:]
        cut = sum(map(len, kept)) < len(text)
        for number, piece in enumerate(kept):
            row = Text(piece, style)
            if number == 0 and not cut:
                row.stylize(colour, 0, len(lane))
            yield row
