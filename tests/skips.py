"""Skipped tests on the machine of continuous integration: a skip that is not listed here is a failure.

`.ci/run` installs what the tests need and sets `HOLDFAST_NO_SKIPS`. A test that is skipped guards nothing.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

VARIABLE = "HOLDFAST_NO_SKIPS"
UNSHARE = "needs unshare, setpriv, and the right to make a mount namespace"
IN_TMP = "this checkout lies in /tmp, which is empty in a container"
ALLOWED = {
    UNSHARE: "a container may not give this right, and no package brings it",
    IN_TMP: "the place of the checkout is not the test's to choose",
}
"""Reasons of skips that are no failure, each with why nothing can be installed against it."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the report of a skip that is not allowed into that of a failure."""
    report = yield
    if os.environ.get(VARIABLE) and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason not in ALLOWED:
            report.outcome, report.longrepr = "failed", f"skipped, which {VARIABLE} forbids: {reason}"
    return report
