"""Servers that misbehave on purpose, each in its own process: `model` (OpenAI chat) and `remote` (A2A)."""
