"""The command line: ``anabranch serve anabranch.yaml``."""

from .main import main

__all__ = ("main",)
