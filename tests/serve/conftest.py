"""The browser for every test of the pages, and time for what they send."""

import pytest

from tests.serve.browser import browser

__all__ = ["browser"]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a batch wait for its receipts also on a busy machine: a page says after 2.5 s that they are on their way."""
    monkeypatch.setattr("holdfast.server.web.pages.batch.PATIENCE_SECONDS", 120.0)
