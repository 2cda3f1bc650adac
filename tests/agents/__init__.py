"""Servers that misbehave on purpose, each in its own process, and a network that does.

`model` is an OpenAI chat endpoint. Of the A2A agents `remote` has no SDK and speaks 1.0 or 0.3, `modern` is on the SDK
of 1.0, `old` on that of 0.3 (in an environment of its own). `cut` stands between a client and one of them.
"""
