"""The A2A protocol, 1.0 and 0.3, over JSON-RPC and REST."""
