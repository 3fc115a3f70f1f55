"""The `workflow` kind: start a Temporal workflow of somebody's own, or send a signal to one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds.base import Step
from holdfast.blueprint.kinds.description import PREVIOUS, Drawing, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.phrases import attempts
from holdfast.blueprint.parts import Part, Requirement, Retry, Seconds, Template
from holdfast.blueprint.words.text import Vocabulary, one_line, say_template

LONGEST_NAME = 200


class WorkflowBlock(Part):
    """The workflow: one to start by its `name`, or with `signal` one that runs, by its `id`."""

    name: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_NAME,
        description="The type of the workflow to start, as its worker registers it.",
        examples=["ShipOrder"],
    )
    task_queue: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_NAME,
        description="The task queue of its worker; default: that of the run.",
        examples=["shipping"],
    )
    id: Template | None = Field(
        None,
        description="Its workflow id; default for one that is started: an id below the run's.",
        examples=["ship-{{ input.order }}"],
    )
    signal: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_NAME,
        description="Send this signal to the workflow of this `id`, and start none.",
        examples=["paid"],
    )
    input: Template = Field(
        PREVIOUS,
        description="Its argument, or that of the signal; default: the step's input.",
        examples=[{"order": "{{ input.order }}"}],
    )
    args: list[Template] | None = Field(
        None, description="Instead of `input`: several arguments, or none.", examples=[["{{ input.order }}", 3], []]
    )

    def requires(self) -> Iterator[Requirement]:
        name, key = (self.name, "name") if self.signal is None else (self.signal, "signal")
        if name is not None:
            place = key if self.task_queue is None else "task_queue"
            yield Requirement("own_workflow", name, (place,), self.task_queue or "")


class OwnWorkflow(Step):
    """Start a workflow of your own as a child, whose result is the output; or send one a signal."""

    kind: Literal["workflow"]
    workflow: WorkflowBlock = Field(
        description="The workflow to start, or to send a signal.",
        examples=[{"name": "ShipOrder", "task_queue": "shipping"}, {"id": "order-7", "signal": "paid"}],
    )
    timeout: Seconds | None = Field(
        None, description="How long one attempt of the workflow may take; default: for ever."
    )
    retry: Retry | None = Field(None, description="How often it is started if it fails; default: once.")

    def reads(self) -> Mapping[str, Template]:
        block = self.workflow
        named = {"workflow.id": block.id, "workflow.input": block.input, "workflow.args": block.args}
        return {**super().reads(), **named}

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        block, at = self.workflow, f"{path}.workflow"
        if block.args is not None and block.input != PREVIOUS:
            findings.add_key(f"{at}.args", "conflict", "'args' and 'input' both give the arguments", "keep one of them")
        if block.signal is not None:
            self._check_signal(path, findings)
        elif block.name is None:
            message = "it names no workflow to start, and no signal to send"
            hint = "write name: and task_queue: of a workflow, or signal: and id: of one that runs"
            findings.add(at, "missing_key", message, hint)

    def _check_signal(self, path: str, findings: Findings) -> None:
        at = f"{path}.workflow"
        if self.workflow.id is None:
            findings.add(f"{at}.signal", "missing_key", "a signal needs the id of a workflow", "add id:")
        starts: dict[str, object] = {
            "workflow.name": self.workflow.name,
            "workflow.task_queue": self.workflow.task_queue,
        }
        starts |= {"timeout": self.timeout, "retry": self.retry}
        for key, value in starts.items():
            if value is not None:
                name = key.rpartition(".")[2]
                message = f"{name!r} belongs to a workflow that is started; 'signal' starts none"
                findings.add_key(f"{path}.{key}", "conflict", message, "remove it, or remove signal")

    def describe(self, names: Vocabulary) -> StepDescription:
        block = self.workflow
        inside = names if self.input == PREVIOUS else names.after(say_template(self.input, names))
        if block.signal is not None:
            signal = one_line(block.signal, 80)
            text = f"sends the signal {signal} to the workflow {say_template(block.id, inside)}{self._with(inside)}."
            return StepDescription(text)
        queue = "" if block.task_queue is None else f" on the task queue {one_line(block.task_queue, 80)}"
        name = "" if block.id is None else f", as {say_template(block.id, inside)}"
        text = f"runs the workflow {one_line(block.name or '', 80)}{queue}{name}{self._with(inside)}."
        return StepDescription(f"{text}{attempts(self.timeout, self.retry)}")

    def _with(self, names: Vocabulary) -> str:
        if self.workflow.args is None:
            return f", with {say_template(self.workflow.input, names)}"
        return f", with {say_template(self.workflow.args, names)}" if self.workflow.args else ", without arguments"

    def draw(self, names: Vocabulary) -> Drawing:
        block = self.workflow
        if block.signal is not None:
            return Drawing("tool", [f"signal {block.signal}"])
        return Drawing("tool", [f"workflow {block.name}"])
