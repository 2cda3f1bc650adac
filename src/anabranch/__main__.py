"""``python -m anabranch``."""

from .cli import main

main()
