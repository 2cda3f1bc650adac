"""anabranch streams agents: every token of every agent and sub-agent, in order, exactly once, attributed, resumable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .scope import current

if TYPE_CHECKING:
    from .app import App

__version__ = "0.1.0"

__all__ = ("App", "__version__", "current")


def __getattr__(name: str) -> Any:
    # The server is imported when it is asked for: `import anabranch` inside somebody's tool must cost nothing.
    if name == "App":
        from .app import App

        return App
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
