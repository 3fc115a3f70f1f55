"""The worker of the handwritten workflows: `python -m benchmarks.hand_worker ADDRESS`.

It imports nothing of Holdfast, and runs the workflows outside Temporal's sandbox, as Holdfast's worker does with its
own: in the sandbox they take twice the processor time and memory.
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from benchmarks.agent_by_hand import AgentByHand, look_up, request_model
from benchmarks.by_hand import ByHand, think

HAND_QUEUE = "by-hand"


async def main(address: str) -> None:
    """Run a worker as large as Holdfast's own, until it is killed."""
    client = await Client.connect(address, data_converter=pydantic_data_converter)
    worker = Worker(
        client,
        task_queue=HAND_QUEUE,
        workflows=[ByHand, AgentByHand],
        workflow_runner=UnsandboxedWorkflowRunner(),
        activities=[think, request_model, look_up],
        activity_executor=ThreadPoolExecutor(100),
        max_concurrent_activities=100,
        max_concurrent_workflow_tasks=100,
        max_cached_workflows=1000,
    )
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
