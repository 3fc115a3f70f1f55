"""Calls that hang while the file `hang` is there, for tests that kill the worker in the middle of them."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic_ai import Agent

from holdfast import agent
from tests.tools import count

adviser = Agent("test")


@agent(idempotent=True)
def clerk(folder: str) -> str:
    """A function that is an agent."""
    return hang(folder, "function")


def is_ready(value: str, context: object) -> bool:
    """A condition."""
    return bool(hang(value, "condition"))


def map_input(value: str, context: object) -> str:
    """A mapper."""
    return hang(value, "mapper")


def hang(folder: str, name: str) -> str:
    count(folder, name)
    while (Path(folder) / "hang").exists():
        time.sleep(0.05)
    return f"{name} is done"
