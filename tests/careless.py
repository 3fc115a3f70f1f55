"""Authors' workflows: one does what the sandbox forbids, one says which modules it shares with the worker."""

from __future__ import annotations

import importlib
import random
import time
from pathlib import Path

from temporalio import workflow

from holdfast import HumanInTheLoop


@workflow.defn(failure_exception_types=[Exception])
class Careless(HumanInTheLoop):
    """Do one thing that differs on replay."""

    @workflow.run
    async def run(self, deed: str) -> None:
        match deed:
            case "clock":
                time.time()
            case "chance":
                random.random()
            case "file":
                Path(__file__).read_text()
            case "input":
                input()


@workflow.defn(failure_exception_types=[Exception])
class Sharing:
    """Import modules by name."""

    @workflow.run
    async def run(self, names: list[str]) -> list[int]:
        return [id(importlib.import_module(name)) for name in names]
