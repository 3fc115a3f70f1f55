"""The workflow of one run of a blueprint; the client starts it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RawValue

from holdfast.blueprint.defaults import complete_input
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.kinds.wait import waits_in
from holdfast.blueprint.model_problems import describe_problem
from holdfast.protocol.answers import Refusal
from holdfast.protocol.children import Budget, Carried, Failure
from holdfast.protocol.events import RunCancelled, RunCompleted, RunFailed, RunStarted
from holdfast.protocol.names import PIPELINE_WORKFLOW
from holdfast.protocol.runs import Definition, PipelineState
from holdfast.protocol.size_limits import SizeLimit, check_value
from holdfast.protocol.values import make_digest
from holdfast.protocol.views import RunResult
from holdfast.workflows.agent.in_run import AgentInRun, is_one_agent
from holdfast.workflows.agent.mailbox import Mailbox
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.deadlines import FINISHED, run_until_deadline
from holdfast.workflows.door import decode_payload
from holdfast.workflows.failures import failure, find_context, find_failure
from holdfast.workflows.frame import ContextStore, Frame, Scope, read_history
from holdfast.workflows.handlers import handles
from holdfast.workflows.interpreter import run_steps
from holdfast.workflows.run import RunWorkflow

ENVELOPE = 4096
"""Most bytes of a start's arguments besides the input."""
LARGEST_SHARED = 65_536
"""Most bytes of a definition that is kept for other runs."""


# An exception that is no Temporal failure hangs the run: the workflow task is retried for ever. Expressions are the
# author's and may raise, so theirs must fail the workflow.
@workflow.defn(name=PIPELINE_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
@handles(Mailbox)
class PipelineWorkflow(RunWorkflow):
    """A run: its steps in order; loops, agents and plans are children, but for the agent of a run that is one agent."""

    @workflow.init
    def __init__(self, definition: RawValue, state: RawValue) -> None:
        given = read_definition(definition.payload.data)
        blueprint = given.blueprint
        begun, self._refusal = _read_start(state, given.size_limits.input)
        limits = [] if blueprint.limits is None else [Budget(limits=blueprint.limits, of="the run", whole_run=True)]
        run = given.run or workflow.info().workflow_id
        started = given.model_copy(update={"run": run, "started_by": begun.started_by})
        carried = Carried(budgets=limits, paused=begun.paused, kept=begun.kept)
        super().__init__(started, carried, given.history_limits.rounds, begun.address)
        self.mailbox = Mailbox(self.host)
        self.host.view.find_hearer = lambda: self.mailbox.hearer
        if is_one_agent(blueprint.steps):
            self.host.agent_room = AgentInRun(self.host, self.mailbox)
        self.host.events.awaited_schemas = self._list_awaited_schemas
        self.host.progress.digest = make_digest(blueprint.model_dump(mode="json", exclude_defaults=True))
        self.store = ContextStore(blueprint.context, blueprint.context_schema)
        self.input, self._misfit = complete_input(blueprint.inputs, begun.input)
        began = read_history(blueprint.context)
        self.host.speakers.note_written(began, began)

    def _list_awaited_schemas(self, name: str) -> list[JSONObject] | None:
        waits = [step for step in waits_in(self.definition.blueprint) if step.event == name and step.early == "keep"]
        return [step.payload or {} for step in waits]

    def current_context(self) -> JSONObject:
        return self.store.value

    @workflow.run
    async def run(self, definition: RawValue, state: RawValue) -> RunResult:
        return await self.run_to_end(self._work(self.definition.blueprint), self._make_result)

    def _make_result(self, output: JSON) -> RunResult:
        return RunResult(output=output, context=self.store.value, usage=self.host.progress.usage)

    def _note_start(self) -> None:
        identity, earlier = self.host.identity, self.host.earlier
        started = RunStarted(
            blueprint=identity.blueprint,
            digest=self.host.progress.digest,
            by=identity.started_by,
            past=earlier.run or None,
            past_by=earlier.by,
        )
        self.host.note(self.address, started)

    async def _work(self, blueprint: Blueprint) -> JSON:
        self._note_start()
        if (refusal := self._refusal) is not None:
            type_ = "too_large" if refusal.code == "too_large" else "input_invalid"
            raise failure(type_, f"the run's input cannot be accepted: {refusal.message}", self.address)
        if self._misfit:
            raise failure("input_invalid", f"the run's input does not fit: {self._misfit}", self.address)
        frame = self.frame(self.store, Scope(), {"input": self.input})
        work = run_steps(blueprint.steps, frame, self.input, blueprint.max_parallel)
        output = await run_until_deadline(
            work, blueprint.deadline, blueprint.on_deadline, frame.after(self.input), blueprint.name
        )
        output = None if output is FINISHED else output
        if blueprint.output is not None:
            output = self._render_output(blueprint.output, frame.after(output))
        return output

    def _render_output(self, template: JSON, frame: Frame) -> JSON:
        try:
            return frame.render(template)
        except ExpressionError as error:
            message = f"the steps have ended, but the output cannot be rendered: {error}"
            raise failure("expression_error", message, self.address) from None

    def on_success(self, output: JSON) -> None:
        """See base class."""
        self.host.note(self.address, RunCompleted(output=output))

    def on_failure(self, error: BaseException) -> None:
        """See base class."""
        if is_cancelled(error):
            self.host.note(self.address, RunCancelled())
            return
        cause = find_failure(error, self.address)
        self.host.note(
            self.address, RunFailed(error=cause.type, message=cause.message, at=cause.address, reason=cause.reason)
        )

    def make_failure(self, error: BaseException) -> Failure:
        """Return the failure with the context where it happened: a failed run leaves nothing else."""
        reached = find_context(error, self.address)
        context = self.store.value if reached is None else reached
        update: dict[str, Any] = {"context": context, "reached": None, "usage": self.host.progress.usage, "undos": []}
        return find_failure(error, self.address).model_copy(update=update)


def read_definition(data: bytes) -> Definition:
    """Return a definition from its JSON; runs of one blueprint share it, as nothing changes it."""
    return _read_shared(data) if len(data) <= LARGEST_SHARED else Definition.model_validate_json(data)


@lru_cache(maxsize=64)
def _read_shared(data: bytes) -> Definition:
    return Definition.model_validate_json(data)


def _read_start(raw: RawValue, limit: SizeLimit) -> tuple[PipelineState, Refusal | None]:
    """Return the start's arguments, or a refusal: a run must exist to report that they cannot be read."""
    try:
        value = decode_payload(raw, limit.model_copy(update={"bytes": limit.bytes + ENVELOPE}))
        state = PipelineState.model_validate(value)
        check_value(state.input, limit, "the input")
    except ValidationError as error:
        return PipelineState(), Refusal("invalid_answer", describe_problem(error))
    except Refusal as refusal:
        return PipelineState(), refusal
    return state, None
