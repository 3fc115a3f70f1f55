"""The `agentic_loop` kind: a planner that runs agents, asks people, and finishes."""

from __future__ import annotations

from dataclasses import replace

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import AgenticLoop
from holdfast.workflows.agents import AgentCall, count_left_out, make_opening, run_agent
from holdfast.workflows.assignees import render_asked_people
from holdfast.workflows.frame import Frame

LOG = "command_log"


async def run_agentic_loop(step: AgenticLoop, frame: Frame) -> JSON:
    """Run a planner and return its output; its log is written to `context.command_log`."""
    value = frame.read_input(step)
    frame = replace(frame, people=render_asked_people(step, frame))
    asking = AgentCall.of(
        step.planner,
        step.name,
        frame.blueprint,
        timeout=step.timeout,
        retry=step.retry,
        registry=tuple(step.registry),
    )
    planner = asking.agent.model_copy(update={"max_turns": step.max_loops})
    opening, left_out = make_opening(step, value, frame), count_left_out(frame)
    result = await run_agent(replace(asking, agent=planner), opening, frame, left_out=left_out)
    log = [entry.model_dump(mode="json") for entry in result.log]
    frame.apply("set", LOG, log)
    if step.output_template is None:
        return result.output
    return frame.after(result.output).with_names(log=log).render(step.output_template)
