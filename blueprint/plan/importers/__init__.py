"""Plans as other planners write them, ReWOO, LLMCompiler and HuggingGPT: each is read into a plan of ours."""

from __future__ import annotations

from typing import Any

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.plan.document import unfenced
from holdfast.blueprint.plan.importers import hugginggpt, llmcompiler, rewoo
from holdfast.blueprint.plan.importers.reading import Reading
from holdfast.blueprint.source import Source

FORMATS = {"ReWOO": rewoo, "LLMCompiler": llmcompiler, "HuggingGPT": hugginggpt}


def recognised(text: str) -> str | None:
    """Which planner's format a text is in, if it is in one of `FORMATS`.

    >>> recognised("Plan: Look.\\n#E1 = Search[tea]"), recognised('1. search("tea")'), recognised('{"goal": "Tea"}')
    ('ReWOO', 'LLMCompiler', None)
    """
    text = unfenced(text)
    return next((name for name, format_ in FORMATS.items() if format_.fits(text)), None)


def imported(text: str, *, goal: str | None = None, file: str = "<text>") -> dict[str, Any]:
    """The plan that a planner's text means, as it is written in JSON. Without a goal it has that of the text, if any.

    Raises `BlueprintError` with everything that is wrong, each at its place in the text.

    >>> imported('1. search("tea")\\n2. sum_up($1)', goal="Tea")["steps"][1]
    {'id': '2', 'instruction': 'Call sum_up with: RESULT_FROM_1', 'tools': ['sum_up'], 'dependencies': ['1']}
    """
    name = recognised(text)
    reading = Reading(Source(file, unfenced(text)))
    if name is None:
        reading.fault(0, "", "bad_value", f"this is no plan of {', '.join(FORMATS)}", "see docs/creating.md")
        raise BlueprintError(reading.problems)
    FORMATS[name].read(reading)
    return reading.plan(goal)
