"""A worker for the workflow of `tests/own_author.py`, as a process that a test can kill."""

import asyncio
import os

from temporalio.client import Client
from temporalio.worker import Worker

from holdfast import Plugin
from tests.own_author import Correspondence


async def work() -> None:
    address, namespace = os.environ["TEMPORAL_ADDRESS"], os.environ["TEMPORAL_NAMESPACE"]
    client = await Client.connect(address, namespace=namespace, plugins=[Plugin()])
    async with Worker(client, task_queue=os.environ["HOLDFAST_TASK_QUEUE"], workflows=[Correspondence]):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work())
