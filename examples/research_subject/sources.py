"""A tool that works on several questions at once, and lets people answer each of them by itself."""

import asyncio

from holdfast import Interrupt, level, resumed, tool


@tool
async def inquire(sides: list[str]) -> dict[str, str]:
    """Inquire into several sides of a subject; for each a person who knows is asked for a source."""
    found: dict[str, str] = resumed(state=dict[str, str]).state or {}

    async def inquire_into(side: str) -> None:
        with level(side):
            source = resumed(str)
            if side in found:
                return
            if not source.has_data:
                raise Interrupt(f"Which source tells about {side}?")
            found[side] = f"according to {source.data}"

    parts = await asyncio.gather(*map(inquire_into, sides), return_exceptions=True)
    if any(parts):
        raise Interrupt.all(parts, info=f"{len(found)} of {len(sides)} sides are looked into", state=found)
    return found
