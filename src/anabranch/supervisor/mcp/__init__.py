"""Tools of MCP servers beside the agents of the supervisor. Importing this loads no MCP library."""

from .server import Server
from .tools import McpTools

__all__ = ("McpTools", "Server")
