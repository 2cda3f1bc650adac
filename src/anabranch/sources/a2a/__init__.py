"""Agents behind the A2A protocol."""

from .source import A2ASource
from .translate import A2ATranslator

__all__ = ("A2ASource", "A2ATranslator")
