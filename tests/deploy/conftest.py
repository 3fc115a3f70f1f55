"""The machines of a crash test, stopped at its end."""

from tests.crash.conftest import machines

__all__ = ["machines"]
