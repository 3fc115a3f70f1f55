"""The dependencies of an agent object, as a function of its team gives them: for each request and each call anew."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any

from holdfast.activities.registry import find
from holdfast.protocol.agent_objects import ObjectUse


@asynccontextmanager
async def dependencies(use: ObjectUse, allowed: Sequence[str]) -> AsyncIterator[Any]:
    """Give the agent's dependencies; a context manager that the function returns is closed afterwards."""
    if use.deps is None:
        yield None
        return
    factory = find(use.deps, allowed)
    arguments = [use.prompt] if factory.parameter_names else []
    if inspect.iscoroutinefunction(inspect.unwrap(factory.function)):
        made = await factory.function(*arguments)
    else:  # it may block, and heartbeats go on meanwhile
        made = await asyncio.to_thread(factory.function, *arguments)
    match made:
        case AbstractAsyncContextManager():
            async with made as value:
                yield value
        case AbstractContextManager():
            with made as value:
                yield value
        case _:
            yield made
