"""Plans that are made again, under the simulator's schedules."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from temporalio.api.common.v1 import Payload

from drills.replan.plans import FAILURES, SHAPES, list_items, make_blueprint, make_plan
from drills.simulate.blueprints import Generated
from drills.simulate.choices import Choices
from drills.simulate.core import Violation
from drills.simulate.simulation import Simulation
from drills.simulate.world import BROKEN, PAY, Activities, World, unpack
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.load import loads
from holdfast.protocol.agents import Completed, Interrupted, ModelReply, ModelRequest, ToolCall, ToolRequest
from holdfast.protocol.questions import Question
from holdfast.protocol.usage import Usage
from holdfast.protocol.values import make_digest

_ONE = Usage(requests=1, input_tokens=1, output_tokens=1)


@dataclass
class Payments(Activities):
    """Activities of a world with a planner that repeats everything."""

    shape: str = "line"
    paid: Counter[str] = field(default_factory=Counter)
    """How often something was paid, by the digest of the arguments."""

    def perform(self, name: str, argument: Payload, *, lost: bool = False) -> object:
        if name == "call_model":
            request = unpack(argument, ModelRequest)
            if request.step == "think":
                stop = {"tools": [BROKEN]} if request.n <= FAILURES else None
                return ModelReply(output=make_plan(self.shape, PAY, {"what": "ITEM"}, stop), usage=_ONE)
            if any(tool.name == "helper" for tool in request.tools):  # called once: each call would pay
                call = ToolCall(id="c1", name="helper", args={"input": "Pay"})
                return ModelReply(tool_calls=[] if len(request.messages) > 1 else [call], output="paid", usage=_ONE)
        return super().perform(name, argument, lost=lost)

    def make_effect(self, request: ToolRequest) -> Completed | Interrupted:
        if request.tool == PAY:
            self.paid[make_digest(request.input)] += 1
        return super().make_effect(request)


class PaidWorld(World):
    """A world in which a person judges by what was paid."""

    payments: Payments

    def __init__(self, events: Sequence[tuple[str, str]], shape: str) -> None:
        super().__init__(events)
        self.activities = self.payments = Payments(shape=shape)
        self.asked = 0

    def choose_content(self, question: Question) -> JSON:
        info = question.info if isinstance(question.info, dict) else {}
        if question.asked.kind == "permission" and "done" in info:
            self.asked += 1
            return {"granted": self.payments.paid[make_digest(info["args"])] == 0}
        if question.asked.kind == "lost_call" and int(make_digest(question.id)[:4], 16) % 2:
            return {"outcome": "fail"}  # who cannot tell: the plan fails, and the next one asks again
        return super().choose_content(question)


def run_seed(seed: int) -> tuple[str, int, list[str]]:
    """Run one schedule; return how it ended, how often a person was asked, and what was broken."""
    shape = SHAPES[seed % len(SHAPES)]
    text = make_blueprint(shape, "simulated", [PAY, BROKEN])
    worlds: list[PaidWorld] = []

    def make_world(events: Sequence[tuple[str, str]]) -> World:
        worlds.append(PaidWorld(events, shape))
        return worlds[0]

    simulation = Simulation(
        Generated(text, loads(text), ()), Choices(random.Random(f"replan {seed}")), make_world=make_world
    )
    try:
        status = simulation.run().status
    except Violation as violation:
        return "broken", worlds[0].asked, [f"seed {seed} ({shape}): {violation}"]
    paid = worlds[0].payments.paid
    wrong = [f"seed {seed} ({shape}): paid {count} times" for count in paid.values() if count > 1]
    if status == "completed" and len(paid) < len(list_items(shape)):
        wrong.append(f"seed {seed} ({shape}): paid for {len(paid)} of {len(list_items(shape))}")
    return status, worlds[0].asked, wrong
