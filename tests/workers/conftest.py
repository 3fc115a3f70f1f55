"""The machines of a crash test, stopped at its end."""

from tests.crash.conftest import machines, with_server

__all__ = ["machines", "with_server"]
