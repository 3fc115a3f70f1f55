"""What tests set in the environment stays in Python, where no thread of the SDK reads it meanwhile."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys

import pytest

NAME = "SET_BY_A_TEST"
PRINTS = [sys.executable, "-c", f"import os; print(os.environ.get('{NAME}'))"]


def in_the_c_library(name: str) -> bytes | None:
    read = ctypes.CDLL(None).getenv
    read.restype = ctypes.c_char_p
    return read(name.encode())


def test_a_variable_that_a_test_sets_is_not_in_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "a")
    monkeypatch.delenv("PATH")
    assert (os.environ[NAME], in_the_c_library(NAME)) == ("a", None)
    assert "PATH" not in os.environ and in_the_c_library("PATH")


async def test_a_process_that_a_test_starts_has_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "a")
    assert subprocess.check_output(PRINTS) == b"a\n"
    assert subprocess.check_output(PRINTS, env=os.environ | {NAME: "b"}) == b"b\n"
    process = await asyncio.create_subprocess_exec(*PRINTS, stdout=subprocess.PIPE)
    assert (await process.communicate())[0] == b"a\n"
