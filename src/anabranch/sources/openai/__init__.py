"""Any OpenAI-compatible chat endpoint as an agent."""

from .source import OpenAISource
from .translate import OpenAITranslator

__all__ = ("OpenAISource", "OpenAITranslator")
