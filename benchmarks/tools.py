"""The tools that `benchmarks.agents` and `benchmarks.iteration` measure."""

from __future__ import annotations

from holdfast.activities import tool


@tool(idempotent=True)
async def read_page(text: str) -> str:
    """Gives its text."""
    return text


@tool(idempotent=True, local=True)
async def read_page_locally(text: str) -> str:
    """Gives its text."""
    return text
