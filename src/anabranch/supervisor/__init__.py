"""The built-in supervisor: a LangGraph deep agent that streams the remote agents it delegates to."""
