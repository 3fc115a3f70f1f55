"""The tool of the agents that `benchmarks.agents` measures."""

from __future__ import annotations

from holdfast.activities import tool


@tool(idempotent=True)
async def read_page(text: str) -> str:
    """Gives its text."""
    return text
