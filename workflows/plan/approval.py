"""The start of a plan: it is read, its tools are looked up, and a person approves it where the author wants that.

A plan that is invalid goes back to the agent that wrote it, and so does one that a person wants revised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio.exceptions import ApplicationError

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import PlanBody, PlanStep
from holdfast.blueprint.load.plans import list_problems, plain_plan, read_plan
from holdfast.blueprint.plan.tools import find_tool_lack
from holdfast.blueprint.questions.agreement import choose_words
from holdfast.blueprint.requirements import tools_behind
from holdfast.protocol.agents import Message, ToolSpec
from holdfast.protocol.answers import Refusal
from holdfast.protocol.display import one_line
from holdfast.protocol.events import StepRetrying
from holdfast.protocol.ledger import tell_ledger
from holdfast.protocol.permissions import collect_policies, find_expected, name_effect
from holdfast.protocol.plans import PlannerCall, PlanOrigin, PlanReview
from holdfast.workflows.agents import AgentCall, run_agent
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.catalogue import Catalogue, list_plan_tools
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.replies import describe_reply

MOST_CORRECTIONS = 3
"""Most corrections of an invalid plan by its planner."""
CORRECT = "Return the whole plan again, with every error corrected."
REVISE = "Return the whole plan again, with the changes that are asked for."
REPLAN = "Your plan has failed. Plan what is left: what stands under `done` as returned must not be done again."


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
            await self.catalogue.look_up(list_plan_tools(author), self.frame)
        return await self._confirm(plan) if author.confirm else plan

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
        return "" if asked is None else write_text(asked)

    async def _check_tools(self, plan: PlanBody) -> None:
        """Look up the tools. Raises `BlueprintError` if some cannot be called, or not with the plan's arguments."""
        await self.catalogue.look_up(list_plan_tools(plan), self.frame)
        # What the author wrote is shown in the confirmation, and is the author's to change.
        faults = self.catalogue.faults(plan, but=list_plan_tools(self.author))
        if faults := [*faults, *self.catalogue.find_misfits(plan, kept=self.author.steps)]:
            raise BlueprintError(list_problems(faults))

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

    def _describe_past(self) -> JSONObject:
        """Return why the plan before failed, and the calls that were made: who approves the next one is to know."""
        failed, done = self.origin.failed, tell_ledger(self.frame.host.ledgers.read(self.frame.address))
        return {**({} if failed is None else {"failed": failed.why}), **({"done": done} if done else {})}

    async def _confirm(self, plan: PlanBody) -> PlanBody:
        """Return the plan as a person approves it, who may edit it, or send it back to its planner."""
        revisions = 0 if self.planner is None else self.author.max_revisions
        faults: list[str] = []
        failed = self.origin.failed
        before = None if failed is None else PlanBody.model_validate(failed.plan)
        while True:
            self.proposed = plan
            asked = choose_words(plan.spoken_language).may_run.format(plan.goal)
            content, self.reply = await review_plan(
                plan,
                self.author,
                self.frame,
                "\n".join([asked, *(["The edited plan cannot be run:", *faults] if faults else [])]),
                self.catalogue,
                faults=faults,
                changes=[] if before is None else differences(before, plan),
                past=self._describe_past(),
                revisable=revisions > 0,
            )
            faults, before = [], plan
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
                        faults = [str(problem) for problem in error.problems]
                case _:
                    return plan


async def approved_change(plan: PlanBody, context: PlanContext, frame: Frame, reason: str) -> tuple[JSON, str | None]:
    """Return the changed plan as a person approves it, and the person if they edited it. Raises `Refusal`."""
    message, changes = choose_words(plan.spoken_language).may_change.format(reason), differences(context.plan, plan)
    try:
        content, reply = await review_plan(plan, context.author, frame, message, context.catalogue, changes=changes)
    except ApplicationError as error:
        raise Refusal("not_allowed", error.message) from None
    return (content["payload"], reply["by"]) if content["verdict"] == "edited" else (plain_plan(plan), None)


async def review_plan(
    plan: PlanBody,
    author: PlanBody,
    frame: Frame,
    message: str,
    catalogue: Catalogue,
    *,
    faults: Sequence[str] = (),
    changes: Sequence[JSONObject] = (),
    past: JSONObject | None = None,
    revisable: bool = False,
) -> tuple[JSONObject, JSONObject]:
    """Return a person's verdict on a plan, and the reply as expressions read it. A rejection is raised as a failure."""
    tools = list_tools(PlanContext(plan, author, frame.blueprint), catalogue)
    asked = PlanReview(
        message=message,
        payload=plain_plan(plan),
        payload_schema={"type": "object"},
        info={
            "goal": plan.goal,
            **({"tools": tools} if tools else {}),
            **({"changes": list(changes)} if changes else {}),
            **(past or {}),
        },
        author=author,
        agents=dict(frame.blueprint.agents),
        faults=list(faults),
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


def differences(before: PlanBody, after: PlanBody) -> list[JSONObject]:
    """Return an entry for each step, loop or setting in which the second plan differs from the first.

    Each has `id`, `change` (`new`, `changed`, `left_out`), and for one that is changed `was`, what it said.
    """
    old, new = _parts_by_name(before), _parts_by_name(after)
    changed = [
        {"id": id_, "change": "changed", "was": _say(old[id_])}
        for id_, part in new.items()
        if id_ in old and old[id_] != part
    ]
    changed += [{"id": id_, "change": "new"} for id_ in new if id_ not in old]
    return [*changed, *({"id": id_, "change": "left_out"} for id_ in old if id_ not in new)]


def _parts_by_name(plan: PlanBody) -> JSONObject:
    document = plain_plan(plan)
    parts = {step["id"]: step for step in document.pop("steps", [])}
    parts |= document.pop("loop_blocks", {})
    return {**parts, **document}


def _say(part: JSON) -> str:
    """Return what a step or a loop was, in short; of any other part its value."""
    if not isinstance(part, dict):
        return one_line(write_text(part))
    words = [str(part.get("instruction") or part.get("over") or part.get("title") or ""), *part.get("tools", [])]
    return one_line(", ".join(filter(None, words)))


def list_tools(context: PlanContext, catalogue: Catalogue) -> dict[str, list[JSONObject]]:
    """Return the tools of every step that has some, with what a person should know before agreeing to them."""
    return {
        step.id: [_describe_tool(tool, step, context, catalogue) for tool in step.tools]
        for step in context.plan.steps
        if step.tools
    }


def _describe_tool(tool: str, step: PlanStep, context: PlanContext, catalogue: Catalogue) -> JSONObject:
    lack = find_tool_lack(tool, step, context.author, context.policy_agent(step))
    problem = catalogue.problems.get(tool) if lack is None else lack.message
    if problem:
        return {"tool": tool, "problem": problem}
    known = catalogue.specs.get(tool)
    spec = known or ToolSpec(name=tool.rpartition(":")[2], reference=tool)
    policies = collect_policies(spec, context.policy_agent(step), context.further_policy_agents(step))
    approval, inner = find_expected(spec, policies), tools_behind(tool, context.blueprint)
    return {
        "tool": tool,
        "effect": "unknown" if known is None else name_effect(spec, policies, inner),
        **({} if approval == "allow" else {"approval": approval}),
        **({"may_call": inner} if inner else {}),
    }
