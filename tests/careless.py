"""A workflow that does what the sandbox forbids."""

from __future__ import annotations

import random
import time
from pathlib import Path

from temporalio import workflow

MARK = object()


@workflow.defn(failure_exception_types=[Exception])
class Careless:
    """Says which copy of this module it sees, if it may do the deed."""

    @workflow.run
    async def run(self, deed: str) -> int:
        match deed:
            case "clock":
                time.time()
            case "chance":
                random.random()
            case "file":
                Path(__file__).read_text()
            case "input":
                input()
        return id(MARK)
