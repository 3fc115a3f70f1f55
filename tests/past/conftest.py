"""The command line, for the tests of going back."""

from tests.client.conftest import holdfast

__all__ = ["holdfast"]
