"""For LangChain and LangGraph programs that run without an anabranch server. Importing this loads neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import MissingExtra

if TYPE_CHECKING:
    from .tool import RemoteA2ATool

__all__ = ("RemoteA2ATool",)


def __getattr__(name: str) -> Any:
    if name == "RemoteA2ATool":
        try:
            from .tool import RemoteA2ATool
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name or "langgraph", "langgraph") from error
        return RemoteA2ATool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
