"""Answers as they go to a workflow, without a client's check before it."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from holdfast.protocol.questions import Question
from holdfast.protocol.views import RefusedSignal
from tests.conftest import Harness, until


async def straight(house: Harness, question: Question, payload: object) -> ApplicationError:
    """The refusal that the workflow itself gives, without a client's check before it."""
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await house.client.get_workflow_handle(question.owner).execute_update("answer", payload)
    assert isinstance(caught.value.cause, ApplicationError)
    return caught.value.cause


async def updated(house: Harness, workflow: str, payload: Any, name: str = "answer") -> ApplicationError | None:
    """The refusal of a raw update; None if it is taken."""
    try:
        await house.client.get_workflow_handle(workflow).execute_update(name, payload)
    except WorkflowUpdateFailedError as error:
        assert isinstance(error.cause, ApplicationError)
        return error.cause
    return None


async def signalled(house: Harness, workflow: str, *payloads: Any, name: str = "answer") -> RefusedSignal:
    """What the view says of a raw signal that is not taken."""
    await house.client.get_workflow_handle(workflow).signal(name, args=payloads)

    async def refused() -> list[RefusedSignal]:
        return (await house.runs.tree.view(workflow)).refused

    return (await until(refused, "the refusal"))[-1]
