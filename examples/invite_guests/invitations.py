"""Runs the workflow of `workflow.py` with a worker of its own, until people have answered.

python -m examples.invite_guests.invitations        # in one terminal
holdfast questions invitations-1                  # in another: what it asks
holdfast answer invitations-1 yes
"""

import asyncio

from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker

from examples.invite_guests.workflow import Invitations
from holdfast import connect
from holdfast.workflows import RUNNER

RUN = "invitations-1"
QUEUE = "invitations"
"""A queue of its own: the workers of Holdfast do not know this workflow."""


async def main() -> None:
    connection = await connect()
    async with Worker(connection.client, task_queue=QUEUE, workflows=[Invitations], workflow_runner=RUNNER):
        handle = await connection.client.start_workflow(
            Invitations.run,
            ["Ana", "Bob"],
            id=RUN,
            task_queue=QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        print(f"{RUN} waits: holdfast questions {RUN}")
        print(await handle.result())


if __name__ == "__main__":
    asyncio.run(main())
