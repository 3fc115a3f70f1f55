"""A run whose planner says a plan."""

from __future__ import annotations

import json
from typing import Any

from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import Plans, says

Json = dict[str, Any]
PLANNED = """
agents:
  planner: {{model: "scripted:replies.yaml", instructions: "Plan {{{{ input }}}}"}}
  clerk: {{model: "scripted:replies.yaml", tools: [{tools}], human: [{human}]}}
steps:
  - {{name: think, uses: agents.planner, input: "Think of {{{{ input }}}}"}}
  - {{kind: plan, name: work, plan: {{from: "{{{{ {source} }}}}", agent: clerk, {more}}}}}
"""


async def planned(plans: Plans, replies: list[Any], script: Json | None = None, **how: str) -> str:
    """Start a run whose planner says these; `how` has tools, human, source and more of the blueprint."""
    told = {"tools": "", "human": "", "source": "steps.think.output", "more": "driver: engine", **how}
    plans.harness.script(
        json.dumps({"think": [{"output": one} for one in replies], **says("1", "2"), **(script or {})})
    )
    return await plans.harness.start(PLANNED.format(**told), "tea")
