"""The bench: what anabranch costs, beside the barest code that does the same. ``python -m bench --help``."""
