"""A workflow whose answers to queries cannot be read, beside others that can."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import WorkflowHandle


def refuse_queries(patch: pytest.MonkeyPatch, workflow: str, error: Exception) -> None:
    """Raise the error for each query of the workflow."""
    ask = WorkflowHandle.query

    async def query(handle: WorkflowHandle, *args: Any, **kwargs: Any) -> Any:
        if handle.id == workflow:
            raise error
        return await ask(handle, *args, **kwargs)

    patch.setattr(WorkflowHandle, "query", query)
