"""The browser for every test of the pages."""

from tests.serve.browser import browser

__all__ = ["browser"]
