"""The machines of a crash test, stopped at its end."""

from tests.crash.conftest import with_server

__all__ = ["with_server"]
