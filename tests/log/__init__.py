"""Every driver of the log passes the same suite."""

import pytest

pytest.register_assert_rewrite(f"{__name__}.conformance")
