"""LangGraph and deepagents graphs as sources. Importing this loads neither."""

from .source import LangGraphSource, scope_of
from .translate import LangGraphTranslator

__all__ = ("LangGraphSource", "LangGraphTranslator", "scope_of")
