"""Runs: what executes them, and what everybody sees of them."""

import pytest

pytest.register_assert_rewrite(f"{__name__}.conformance", f"{__name__}.staging")
