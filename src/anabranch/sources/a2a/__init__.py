"""Agents behind the A2A protocol."""

from ._credential import ApiKey, ClientCredentials, Credential
from ._wire import EXTENSION
from .source import A2ASource
from .translate import A2ATranslator

__all__ = ("EXTENSION", "A2ASource", "A2ATranslator", "ApiKey", "ClientCredentials", "Credential")
