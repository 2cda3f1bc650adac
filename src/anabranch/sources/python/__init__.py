"""An async generator of text and events as an agent: the smallest source, and the test double."""

from .source import PythonSource
from .translate import PythonTranslator

__all__ = ("PythonSource", "PythonTranslator")
