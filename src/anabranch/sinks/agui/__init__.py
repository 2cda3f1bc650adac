"""AG-UI 1.0, and the older clients that are still in use: one run as server-sent events."""
