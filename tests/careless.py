"""An author's workflow that does what the sandbox forbids."""

from __future__ import annotations

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
