"""One run of a blueprint."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import workflow

from blueprint.expressions import ExpressionError
from blueprint.jsonschemas import misfit
from protocol.address import root
from protocol.runs import PIPELINE_WORKFLOW, Budget, Definition, Failure, PipelineState, RunResult
from protocol.values import digest_of
from workflows.failures import HANDLED, failure, failure_of, raised
from workflows.frame import Frame, Scope, Store
from workflows.host import Host
from workflows.interpreter import run_steps
from workflows.limits import Meter
from workflows.together import is_cancelled


@workflow.defn(name=PIPELINE_WORKFLOW, failure_exception_types=[ExpressionError])
class PipelineWorkflow(Host):
    """A run: its steps in order, its loops as children."""

    @workflow.init
    def __init__(self, definition: Definition, state: PipelineState) -> None:
        blueprint = definition.blueprint
        super().__init__(
            run=definition.run,
            address=root(blueprint.name),
            blueprint=blueprint.name,
            guarded=definition.guarded,
            started_by=state.started_by,
        )
        self.digest = digest_of(blueprint.model_dump(mode="json", exclude_defaults=True))
        self.store = Store(blueprint.context, blueprint.context_schema)

    def current_context(self) -> dict[str, Any]:
        return self.store.value

    @workflow.run
    async def run(self, definition: Definition, state: PipelineState) -> RunResult:
        shown = asyncio.create_task(self.keep_shown())
        self.note(self.address, "run.started", blueprint=self.blueprint_name, digest=self.digest)
        try:
            output = await self._work(definition, state)
        except HANDLED as error:
            if is_cancelled(error):
                await self._cancelled()
                raise
            what = failure_of(error, self.address)
            await self._failed(what)
            raise raised(what) from error
        except asyncio.CancelledError:
            await self._cancelled()
            raise
        finally:
            shown.cancel()
        self.note(self.address, "run.completed", output=output)
        await self.close("completed")
        return RunResult(output=output, context=self.store.value)

    async def _work(self, definition: Definition, state: PipelineState) -> Any:
        blueprint = definition.blueprint
        if blueprint.inputs is not None and (wrong := misfit(blueprint.inputs, state.input)):
            raise failure("input_invalid", f"the run's input does not fit: {wrong}", self.address)
        limits = [] if blueprint.limits is None else [Budget(limits=blueprint.limits, of="the run", whole_run=True)]
        frame = Frame(
            host=self,
            address=self.address,
            blueprint=blueprint,
            store=self.store,
            scope=Scope(),
            run_steps=run_steps,
            names={"input": state.input},
            meter=Meter(limits),
        )
        output = await run_steps(blueprint.steps, frame, state.input)
        return output if blueprint.output is None else frame.after(output).render(blueprint.output)

    async def _failed(self, what: Failure) -> None:
        self.note(
            self.address, "run.failed", error=what.type, message=what.message, at=what.address, reason=what.reason
        )
        await self.close("failed")

    async def _cancelled(self) -> None:
        self.note(self.address, "run.cancelled")
        await self.close("cancelled")
