"""Several passes as one set of figures, and figures as a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from .options import Row

Figures = dict[str, Any]


def middle(passes: Sequence[Figures]) -> Figures:
    """The median of each number over all passes; a truth holds when it held in each."""
    out: Figures = {}
    for name in dict.fromkeys(name for figures in passes for name in figures):
        values = [figures[name] for figures in passes if name in figures]
        if isinstance(values[0], dict):
            out[name] = middle(values)
        elif isinstance(values[0], bool):
            out[name] = all(values)
        else:
            out[name] = round(statistics.median(values), 4)
    return out


def flaws(figures: Figures, path: str = "") -> Iterator[str]:
    """Where a token was lost, repeated or changed, or a run did not end well."""
    for name, value in figures.items():
        where = f"{path}.{name}".lstrip(".")
        if name in ("lost", "repeated", "foreign", "errors") and value:
            yield f"{where}: {value}"
        elif name == "exact" and not value:
            yield f"{where}: no"
        elif isinstance(value, dict):
            yield from flaws(value, where)


def table(rows: Sequence[tuple[Row, Figures, Sequence[Figures]]]) -> str:
    """A Markdown table that is also readable as text; each row with its median figures and those of each pass."""
    cells: list[tuple[str, ...]] = [("", "ours", "in all passes", "beside", "ratio", "target", "met")]
    cells += [_cells(*row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)


def _cells(row: Row, figures: Figures, passes: Sequence[Figures]) -> tuple[str, ...]:
    ours = _at(figures, row.ours)
    beside = _at(figures, row.beside) if row.beside else None
    if isinstance(ours, bool):
        compared = "" if beside is None else _said(beside)
        return (row.label, _said(ours), "", compared, "", "yes", "yes" if ours else "NO")
    ratio = ours / beside if beside else None
    each = [_at(figures, row.ours) for figures in passes]
    targets, met = [], True
    if row.limit is not None:
        targets.append(f"<= {row.limit:g} {row.unit}")
        met &= ours <= row.limit
    if row.ratio is not None:
        targets.append(f"<= {row.ratio:g}x")
        met &= ratio is not None and ratio <= row.ratio
    return (
        row.label,
        f"{_shown(ours)} {row.unit}",
        f"{_shown(min(each))} .. {_shown(max(each))}" if len(each) > 1 else "",
        f"{_shown(beside)} {row.unit}" if beside is not None else "",
        f"{ratio:.{2 if ratio >= 0.1 else 3}f}x" if ratio is not None else "",
        ", ".join(targets),
        ("yes" if met else "NO") if targets else "",
    )


def _said(truth: bool) -> str:
    return "yes" if truth else "no"


def _at(figures: Figures, path: str) -> Any:
    value: Any = figures
    for name in path.split("."):
        value = value[name]
    return value


def _shown(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
