"""The start of a plan: it is read, its tools are looked up, and a person approves it where the author wants that.

A plan that is invalid goes back to the agent that wrote it, and so does one that a person wants revised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio.exceptions import ApplicationError

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import PlanBody, PlanStep
from holdfast.blueprint.load.plans import plain_plan, problems_of, read_plan
from holdfast.blueprint.plan.tools import lack_of
from holdfast.blueprint.questions.agreement import words_of
from holdfast.blueprint.requirements import tools_behind
from holdfast.protocol.agents import Message, ToolSpec
from holdfast.protocol.answers import Refusal
from holdfast.protocol.events import StepRetrying
from holdfast.protocol.ledger import tell_ledger
from holdfast.protocol.permissions import Expected, expected, policies_of
from holdfast.protocol.plans import PlannerCall, PlanOrigin, PlanReview
from holdfast.workflows.agents import AgentCall, run_agent
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.catalogue import Catalogue, tools_of
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.replies import describe_reply

MOST_CORRECTIONS = 3
"""Most corrections of an invalid plan by its planner."""
CORRECT = "Return the whole plan again, with every error corrected."
REVISE = "Return the whole plan again, with the changes that are asked for."
REPLAN = "Your plan has failed. Plan what is left: what stands under `done` as returned must not be done again."


MARKS: dict[Expected, str] = {
    "allow": "",
    "depends": "may need approval",
    "ask": "needs approval",
    "deny": "not permitted",
}


class PlanStart:
    """A plan before anything of it runs.

    Args:
        author: The plan as its step has it.
        origin: The value that the plan is read from, if the step says so, and its planner.
        frame: A frame at the plan's address.
        catalogue: Takes what is known of the plan's tools.
    """

    def __init__(self, author: PlanBody, origin: PlanOrigin, frame: Frame, catalogue: Catalogue) -> None:
        self.author, self.origin, self.frame, self.planner = author, origin, frame, origin.planner
        self.catalogue = catalogue

        self.proposed: PlanBody | None = None
        """The plan that a person is asked about."""
        self.reply: JSONObject | None = None
        """The last reply of a person who was asked, as `steps.NAME.reply` has it."""

    async def plan(self) -> PlanBody:
        """Return the plan to run, approved where the author wants that."""
        author = plan = self.author
        await self.frame.host.until_resumed()
        if author.source is not None:
            plan = await self._read(await self._propose())
        elif author.confirm or author.driver == "agent":
            await self.catalogue.look_up(tools_of(author), self.frame)
        return await self._confirmed(plan) if author.confirm else plan

    async def _propose(self) -> JSON:
        """Return the value that the plan is read from; after a plan that failed, one that its planner makes anew."""
        failed, planner = self.origin.failed, self.planner
        if failed is None or planner is None:
            return self.origin.given
        return await self._again(planner, failed.plan, failed=failed.why, to_do=REPLAN)

    async def _read(self, value: object) -> PlanBody:
        """Return the plan in a value; the planner corrects it, a bounded number of times."""
        for corrections in reversed(range(MOST_CORRECTIONS + 1)):
            try:
                plan = read_plan(value, self.author, self.frame.blueprint.agents, by_model=True, goal=self._goal())
                await self._check_tools(plan)
                return plan
            except BlueprintError as error:
                wrong = [str(problem) for problem in error.problems]
                if self.planner is None or not corrections:
                    text = "no plan that can be run:\n" + "\n".join(wrong)
                    raise failure("plan_invalid", text, self.frame.address) from None
            value = await self._again(self.planner, value, errors=wrong, to_do=CORRECT)
        raise AssertionError("the last attempt returns or raises")

    def _goal(self) -> str:
        """Return the goal of a plan that names none: the input of its planner, else of the step."""
        asked = self.origin.task if self.planner is None else self.planner.input
        return "" if asked is None else text_of(asked)

    async def _check_tools(self, plan: PlanBody) -> None:
        """Look up the tools. Raises `BlueprintError` if some cannot be called, or not with the plan's arguments."""
        await self.catalogue.look_up(tools_of(plan), self.frame)
        # What the author wrote is shown in the confirmation, and is the author's to change.
        faults = self.catalogue.faults(plan, but=tools_of(self.author))
        if faults := [*faults, *self.catalogue.find_misfits(plan, kept=self.author.steps)]:
            raise BlueprintError(problems_of(faults))

    async def _again(self, planner: PlannerCall, plan: object, **more: Any) -> JSON:
        """Return another plan of the planner."""
        frame = self.frame.at("step", planner.step)
        frame.note(StepRetrying(message=more["to_do"]))
        # Its instructions are handed over as they were rendered at its step: here the names in them would mean others.
        agent = planner.agent.model_copy(update={"instructions": ""})
        call = AgentCall(agent, planner.name, planner.step, planner.timeout, planner.retry)
        done = tell_ledger(self.frame.host.ledgers.read(self.frame.address))
        value = {"task": planner.input, "your_plan": plan, **({"done": done} if done else {}), **more}
        opening = [Message(role="user", content=value)]
        return (await run_agent(call, opening, frame, planner.instructions)).output

    async def _confirmed(self, plan: PlanBody) -> PlanBody:
        """Return the plan as a person approves it, who may edit it, or send it back to its planner."""
        revisions = 0 if self.planner is None else self.author.max_revisions
        wrong: Sequence[str] = ()
        failed = self.origin.failed
        before = None if failed is None else PlanBody.model_validate(failed.plan)
        while True:
            self.proposed = plan
            asked = words_of(plan.language).may_run.format(plan.goal)
            content, self.reply = await reviewed(
                plan,
                self.author,
                self.frame,
                "\n".join([asked, *wrong]),
                self.catalogue,
                changes=[] if before is None else differences(before, plan),
                revisable=revisions > 0,
            )
            wrong, before = (), plan
            match content["verdict"]:
                case "revise" if self.planner is not None:
                    revisions -= 1
                    wanted = {"wanted": content["reason"], **({"by": by} if (by := self.reply["by"]) else {})}
                    plan = await self._read(await self._again(self.planner, plain_plan(plan), **wanted, to_do=REVISE))
                case "edited":
                    plan = read_plan(content["payload"], self.author, self.frame.blueprint.agents)
                    try:
                        await self._check_tools(plan)
                        return plan
                    except BlueprintError as error:
                        wrong = ["The edited plan cannot be run:", *map(str, error.problems)]
                case _:
                    return plan


async def approved_change(plan: PlanBody, context: PlanContext, frame: Frame, reason: str) -> tuple[JSON, str | None]:
    """Return the changed plan as a person approves it, and the person if they edited it. Raises `Refusal`."""
    message, changes = words_of(plan.language).may_change.format(reason), differences(context.plan, plan)
    try:
        content, reply = await reviewed(plan, context.author, frame, message, context.catalogue, changes=changes)
    except ApplicationError as error:
        raise Refusal("not_allowed", error.message) from None
    return (content["payload"], reply["by"]) if content["verdict"] == "edited" else (plain_plan(plan), None)


async def reviewed(
    plan: PlanBody,
    author: PlanBody,
    frame: Frame,
    message: str,
    catalogue: Catalogue,
    *,
    changes: Sequence[str] = (),
    revisable: bool = False,
) -> tuple[JSONObject, JSONObject]:
    """Return a person's verdict on a plan, and the reply as expressions read it. A rejection is raised as a failure."""
    tools = marked_tools(PlanContext(plan, author, frame.blueprint), catalogue)
    asked = PlanReview(
        message=message,
        payload=plain_plan(plan),
        payload_schema={"type": "object"},
        info={
            "goal": plan.goal,
            **({"tools": tools} if tools else {}),
            **({"changes": "; ".join(changes)} if changes else {}),
        },
        author=author,
        agents=dict(frame.blueprint.agents),
        revisable=revisable,
    )
    await frame.host.until_resumed()
    reply = await frame.at("hitl", "confirm-plan").ask(asked)
    content: JSONObject = reply.content if reply.status == "answered" else asked.when_declined(reply.comment)
    described = describe_reply(asked, reply)
    if content["verdict"] == "rejected":
        reason = f": {content['reason']}" if content.get("reason") else ""
        text = f"{reply.by or 'somebody'} rejected the plan{reason}"
        raise failure("plan_rejected", text, frame.address, reply=described)
    return content, described


def differences(before: PlanBody, after: PlanBody) -> list[str]:
    """Return a line for each step, loop or setting of the plan in which the second differs from the first."""
    old, new = _parts_by_name(before), _parts_by_name(after)
    lines = [f"{name} is changed" for name, part in new.items() if name in old and old[name] != part]
    lines += [f"{name} is new" for name in new if name not in old]
    return [*lines, *(f"{name} is left out" for name in old if name not in new)]


def _parts_by_name(plan: PlanBody) -> JSONObject:
    document = plain_plan(plan)
    parts = {f"step {step['id']}": step for step in document.pop("steps", [])}
    parts |= {f"loop {id_}": block for id_, block in document.pop("loop_blocks", {}).items()}
    return {**parts, **document}


def marked_tools(context: PlanContext, catalogue: Catalogue) -> dict[str, list[str]]:
    """Return the tools of every step that has some, with what a person should know before agreeing to them."""
    return {
        step.id: [_marked(tool, step, context, catalogue) for tool in step.tools]
        for step in context.plan.steps
        if step.tools
    }


def _marked(tool: str, step: PlanStep, context: PlanContext, catalogue: Catalogue) -> str:
    lack = lack_of(tool, step, context.author, context.policy_agent(step))
    missing = catalogue.problems.get(tool) if lack is None else lack.message
    mark = f"cannot be called: {missing}" if missing else MARKS[_expected(tool, step, context, catalogue)]
    inner = tools_behind(tool, context.blueprint)
    notes = [*([mark] if mark else []), *([f"may call {', '.join(inner)}"] if inner else [])]
    return f"{tool} ({'; '.join(notes)})" if notes else tool


def _expected(tool: str, step: PlanStep, context: PlanContext, catalogue: Catalogue) -> Expected:
    """Return what the rules say about a tool before its arguments are known."""
    spec = catalogue.specs.get(tool) or ToolSpec(name=tool.rpartition(":")[2], reference=tool)
    return expected(spec, policies_of(spec, context.policy_agent(step), context.further_policy_agents(step)))
