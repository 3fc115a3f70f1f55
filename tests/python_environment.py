"""Environment variables: those that tests change in Python alone, not in the C library; those of a second pytest."""

from __future__ import annotations

import os
import subprocess
from typing import Any

WITHOUT_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""For a pytest that a test starts: to import the plugins that are installed takes it more than a second."""


def keep_in_python() -> None:
    """Keep changes of `os.environ` from the C library, from here on; processes that are started get `os.environ`.

    Threads of the Temporal SDK read the environment as they connect, with no regard to Python's lock. glibc before 2.41
    moves it in memory at each change: a process that changes it beside a worker has died of SIGSEGV within seconds.
    """
    os.putenv = os.unsetenv = _ignored  # type: ignore[assignment]
    start = subprocess.Popen.__init__

    def with_environment(self: Any, *positional: Any, env: Any = None, **named: Any) -> None:
        start(self, *positional, env=dict(os.environ) if env is None else env, **named)

    subprocess.Popen.__init__ = with_environment  # type: ignore[assignment]


def _ignored(*_: object) -> None:
    pass
