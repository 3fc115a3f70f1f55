"""Commands that need an extra which is not installed name it."""

from __future__ import annotations

import subprocess
import sys

import pytest

BASE_INSTALL = """
import sys
sys.modules.update(dict.fromkeys(["sqlalchemy", "starlette", "uvicorn", "httpx", "authlib", "mcp"]))
from holdfast.cli.app import COMMANDS, run_command
print({command: run_command([command, "--help"]) for command in sys.argv[1:] or COMMANDS}, file=sys.stderr)
"""


@pytest.mark.slow
def test_no_command_fails_with_a_traceback_where_an_extra_is_missing() -> None:
    done = subprocess.run([sys.executable, "-c", BASE_INSTALL], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "holdfast comment needs more: pip install 'holdfast[serve]'" in done.stderr
    assert "holdfast erase needs more: pip install 'holdfast[serve]'" in done.stderr
