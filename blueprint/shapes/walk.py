"""Walks the steps of a blueprint, and knows at each place what the names there give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.blueprint.expressions.texts import read_structure
from holdfast.blueprint.kinds import Agent, AnyStep, Block, Blueprint, Fallback
from holdfast.blueprint.kinds.agent_checks import PLAIN
from holdfast.blueprint.kinds.agents import AgentTool
from holdfast.blueprint.kinds.deadlines import DEADLINE
from holdfast.blueprint.kinds.knowledge import ERROR, Branching, Knowledge, ToolShapes
from holdfast.blueprint.kinds.needs import has_needs
from holdfast.blueprint.kinds.walk import placed_steps
from holdfast.blueprint.parts import Template
from holdfast.blueprint.shape import UNKNOWN, Shape, join_shapes
from holdfast.blueprint.shapes.branches import check_branches
from holdfast.blueprint.shapes.context import Context, Writes, gather_writes, is_same, make_context
from holdfast.blueprint.shapes.fitting import (
    check_arguments,
    check_call,
    check_form,
    check_import,
    check_import_outputs,
    check_input,
    check_output,
    find_misfit,
)
from holdfast.blueprint.shapes.place import PREVIOUS, Place, make_entry
from holdfast.blueprint.shapes.reader import ExpressionReader
from holdfast.blueprint.shapes.report import Report, Sink, describe_types
from holdfast.blueprint.shapes.writes import check_operation, check_writes, follow_writes

_VALUES = ("condition_expression", "iterable_input")
"""Conditions whose value is used: they are not tested for truth."""


NO_TOOLS = ToolShapes()
_MOST_WALKS = 3
"""How often what the steps write is learnt anew from what they wrote before, until nothing new comes of it."""


def judge(blueprint: Blueprint, findings: Sink, tools: ToolShapes = NO_TOOLS) -> None:
    """Report what cannot be meant in one document, its imports left out.

    Args:
        blueprint: The document.
        findings: Where its mistakes and warnings go.
        tools: What a worker, or its packages, say of tools.
    """
    done = walk(blueprint, Report(findings), tools)
    for name, agent in blueprint.agents.items():
        done.check_approvals(agent.tools, f"agents.{name}.tools")
    for path, step in placed_steps(blueprint.steps, "steps"):
        for used in step.agents():
            if isinstance(used.agent, Agent):
                done.check_approvals(used.agent.tools, f"{path}.{used.path}.tools")
        done.check_approvals(step.tools(), f"{path}.registry")


def find_output_shape(blueprint: Blueprint, tools: ToolShapes = NO_TOOLS) -> Shape:
    """Return what is known of the output of a blueprint."""
    return walk(blueprint, Report(None), tools).output


def walk(blueprint: Blueprint, report: Report, tools: ToolShapes) -> Walk:
    """Return the walk over a blueprint, done."""
    imports = {alias: walk(inner, Report(None), tools) for alias, inner in blueprint.imports.items()}

    def learn(context: Context) -> Context:
        learning = Walk(blueprint, Report(None), imports, tools, context)
        learning.walk()
        writes = gather_writes(learning.outputs)
        return Context(blueprint, make_context(blueprint, writes), writes)

    context = Context(blueprint, make_context(blueprint, Writes()))
    for _ in range(_MOST_WALKS):
        before, context = context, learn(context)
        if is_same(before.shape, context.shape):
            break
    else:
        context = learn(Context(blueprint, UNKNOWN))
    done = Walk(blueprint, report, imports, tools, context)
    done.walk()
    return done


@dataclass(frozen=True)
class DecidingExpression:
    """An expression that decides something."""

    step: AnyStep
    key: str
    """Its path in the step."""
    expression: str
    place: Place
    block: Block | None = None
    """The steps inside, where it is read after them, or before each of them."""


@dataclass
class Walk:
    """One walk over the steps of a blueprint."""

    blueprint: Blueprint
    report: Report
    imports: Mapping[str, Walk]
    tools: ToolShapes
    context: Context
    outputs: list[tuple[AnyStep, Shape]] = field(default_factory=list)
    """Every step with what it gives, in the order of the walk."""
    output: Shape = UNKNOWN
    """What the blueprint gives."""
    ask_nobody: frozenset[str] = frozenset()
    readings: list[DecidingExpression] = field(default_factory=list)
    """Every expression that decides something, in the order of the walk."""
    whens: dict[str, str] = field(default_factory=dict)
    """The `when` of each step before that has one, by its name."""

    def walk(self) -> None:
        """Walk over the whole blueprint."""
        every = placed_steps(self.blueprint.steps, "steps")
        self.ask_nobody = frozenset(step.name for _, step in every if not step.gives_reply)
        first = Shape(self.blueprint.inputs) if self.blueprint.inputs is not None else UNKNOWN
        names = {"input": first, "context": self.context.shape}
        start = Place(previous=first, names=names, written=self.context.writes.list_whole())
        check_form(DEADLINE, self._reader("deadline", start), self.blueprint.deadline, "deadline")
        end = self._walk_list(self.blueprint.steps, "steps", start)
        template = self.blueprint.output
        self.output = end.previous if template is None else self._reader("output", end).render(template)

    def check_approvals(self, tools: Sequence[AgentTool], path: str) -> None:
        """Report what cannot be meant in the `approve` of tools, by the arguments that each takes."""
        for index, tool in enumerate(tools):
            parameters = self.tools.parameters.get(tool.name)
            if tool.approve is not None and tool.approve not in PLAIN and parameters is not None:
                reader = self._reader(f"{path}[{index}].approve", Place(names={"args": parameters}))
                reader.evaluate(tool.approve, is_condition=True)

    def _reader(self, path: str, place: Place) -> ExpressionReader:
        return ExpressionReader(place, path, self.report, self.ask_nobody)

    def _note(self, step: AnyStep, key: str, expression: str, place: Place, block: Block | None = None) -> None:
        self.readings.append(DecidingExpression(step, key, expression, place, block))

    def _walk_list(self, steps: Sequence[AnyStep], path: str, place: Place) -> Place:
        """Walk over a list of steps; return what is known after it."""
        if has_needs(steps):
            return self._walk_dependent(steps, path, place)
        for index, step in enumerate(steps):
            place = self._walk_step(step, f"{path}[{index}]", place)
        return place

    def _walk_dependent(self, steps: Sequence[AnyStep], path: str, place: Place) -> Place:
        """Walk over steps of which each sees those that it needs; who has answered before is not known."""
        after: dict[str, Place] = {}
        for index, step in enumerate(steps):
            before = [after[name] for name in step.needs if name in after]
            begin = place.join(before, before[0].previous if before else place.previous)
            after[step.name] = self._walk_step(step, f"{path}[{index}]", begin)
        return place.join(list(after.values()), after[steps[-1].name].previous)

    def _walk_step(self, step: AnyStep, path: str, place: Place) -> Place:
        if step.when is not None:
            self._note(step, "when", step.when, place)
            self._check_condition(step.when, f"{path}.when", place)
        place, outside = self._assume(step, place), place
        # A person who decides about a failure may give another input.
        rendered = self._reader(f"{path}.{step.input_key}", place).render(step.input_template)
        input_ = UNKNOWN if step.on_error == "ask" else rendered
        inside = replace(place, previous=input_, certain=place.certain - {PREVIOUS[0]})
        check_input(step, input_, path, self.report)
        given = {"": input_}
        for key, template in step.reads().items():
            if key != step.input_key:
                reader, form = self._reader(f"{path}.{key}", inside), step.template_forms().get(key)
                given[key] = reader.render(template) if form is None else check_form(form, reader, template, key)
        check_import(step, given, self.blueprint, path, self.report)
        if step.import_alias is not None and step.import_alias in self.imports:
            check_import_outputs(step, self.imports[step.import_alias].context.shape, path, self.report)
        check_arguments(step, rendered, self.tools, path, self.report)
        for key, condition in step.conditions().items():
            if key != "when":
                self._note(step, key, condition, inside)
                alone = replace(inside, looked_at=self._assume(step, outside, but=key).looked_at)
                self._check_value(step, condition, key, path, alone)
        output = self._find_output(step, input_, path, inside)
        self.outputs.append((step, output))
        self._check_update(step, output, path)
        check_writes(step, output, self.context, place.latest, path, self.report)
        return self._after(step, output, path, outside)

    def _assume(self, step: AnyStep, place: Place, *, but: str = "") -> Place:
        """Return the place inside a step: what its conditions look at is not null or missing there by mistake.

        `but` is the key of one that is left out.
        """
        looked_at = {f"steps.{name}" for name, when in self.whens.items() if when == step.when}
        for key, condition in step.conditions().items():
            looked_at |= set() if key == but else ExpressionReader.find_read(condition)
        return place.assume(looked_at)

    def _check_value(self, step: AnyStep, condition: str, key: str, path: str, place: Place) -> None:
        """Check a condition that the step itself evaluates, on its input."""
        if not key.endswith(_VALUES):
            self._check_condition(condition, f"{path}.{key}", place)
            return
        reader, before = self._reader(f"{path}.{key}", place), self.report.mistakes
        shape = reader.evaluate(condition, is_condition=False)
        if step.branching is not None:
            # A written constant is meant; of a mistaken expression it is not known what is.
            if not reader.is_constant(condition) and self.report.mistakes == before:
                reader.check_choice(condition)
                check_branches(reader, path, step.branching, shape)
        elif not shape.may_be("list", "text"):
            message = f"{condition} is {describe_types(shape)}, and no list"
            reader.report("bad_shape", message, "a map goes through a list, or the JSON text of one")

    def _check_choice(self, choice: Branching, key: str, path: str, place: Place) -> None:
        reader = self._reader(f"{path}.{key}", place)
        shape = reader.evaluate(choice.expression, is_condition=False)
        if not reader.is_constant(choice.expression):
            check_branches(reader, path, choice, shape)

    def _check_condition(self, condition: str, path: str, place: Place, *, is_exit: bool = False) -> None:
        reader = self._reader(path, place)
        shape = reader.evaluate(condition, is_condition=True)
        if is_exit:
            reader.check_exit(condition)
        if not reader.is_constant(condition):
            reader.check_decided(condition, shape, is_exit=is_exit)

    def _find_output(self, step: AnyStep, input_: Shape, path: str, place: Place) -> Shape:
        """Return what a step gives where it completes; checks the steps inside it."""
        ends: dict[str, Place] = {}

        def read(expression: str) -> Shape:
            return ExpressionReader(place, path, Report(None), self.ask_nobody).evaluate(expression, is_condition=False)

        blocks = step.blocks()
        for key, block in blocks.items():
            if block.on_output:
                continue
            names = step.inner_shapes(key, input_, read)
            ends[key] = self._walk_block(step, key, block, path, names, replace(place, previous=input_))

        def render(key: str, template: Template, previous: Shape) -> Shape:
            end = replace(ends[key], previous=previous)
            return ExpressionReader(end, path, Report(None), self.ask_nobody).render(template)

        last = {key: end.previous for key, end in ends.items()}
        for key, schema in step.block_forms().items():
            if wrong := find_misfit(last[key], Shape(schema)):
                hint = "change what its last step gives, or the step around it"
                self.report.add_key(f"{path}.{key}", "bad_shape", f"{key} cannot be joined: {wrong}", hint)
        outputs = {alias: inner.output for alias, inner in self.imports.items()}
        given = step.output_shape(Knowledge(input_, self.blueprint, last, render, outputs, self.tools))
        check_output(step, given, path, self.report)
        output = given if step.output_schema is None else Shape(step.output_schema)
        for key, block in blocks.items():
            if block.on_output:
                self._walk_block(step, key, block, path, {"previous_step": output}, place)
        return output

    def _walk_block(
        self, step: AnyStep, key: str, block: Block, path: str, names: Mapping[str, Shape], place: Place
    ) -> Place:
        """Walk over the steps inside a step; return what is known after them."""
        # Answers may come from elsewhere, and a name of the block hides one around it.
        unknown = dict.fromkeys(block.names, UNKNOWN)
        known = {name: shape for name, shape in names.items() if name != "previous_step"}
        begin = replace(
            place,
            previous=names.get("previous_step", UNKNOWN),
            heard=UNKNOWN,
            names={**place.names, **unknown, **known},
            certain=place.certain - {PREVIOUS[0]},
            latest={},
        )
        around, self.context = self.context, self.context.begin_in(step)
        end = self._walk_list(block.steps, f"{path}.{key}", begin)
        self.context = around
        for read_key, template in block.reads.items():
            if (choice := block.choices.get(read_key)) is not None:
                self._note(step, read_key, choice.expression, end, block)
                self._check_choice(choice, read_key, path, end)
                continue
            at = replace(begin, previous=place.previous) if ".init[" in read_key else end if block.loops else begin
            value = self._reader(f"{path}.{read_key}", at).render(template)
            if block.calls is not None:
                check_call(block.calls, read_key, value, self.tools, path, self.report)
            latest = place.latest if ".init[" in read_key else end.latest
            check_operation(step, read_key, value, self.context, latest, path, self.report)
        for read_key, condition in block.conditions.items():
            at = end if block.loops else begin
            self._note(step, read_key, condition, at, block)
            self._check_condition(condition, f"{path}.{read_key}", at, is_exit=block.loops)
        return end

    def _after(self, step: AnyStep, output: Shape, path: str, place: Place) -> Place:
        """Return what is known after a step, however it ended."""
        always_runs = step.when is None and step.on_error == "fail"
        known = output
        if step.on_error == "ask":
            known = UNKNOWN  # what a person gives instead
        elif isinstance(step.on_error, Fallback):
            entry = make_entry(step, UNKNOWN)
            failed = replace(place, steps={**place.steps, step.name: entry}, names={**place.names, "error": ERROR})
            ended = self._walk_step(step.on_error.fallback, f"{path}.on_error.fallback", failed)
            known = join_shapes([output, ended.previous])
        asks = step.answered_question is not None
        heard = output if asks and always_runs else UNKNOWN
        kept = not asks and not step.blocks() and not step.asks_people and step.on_error == "fail"
        causes = {} if step.null_cause is None else {step.name: step.null_cause}
        mine = {PREVIOUS[0], f"steps.{step.name}.output"}
        certain = place.certain - mine | (mine if always_runs and not causes else set())
        if step.when is not None:
            self.whens[step.name] = step.when
        return Place(
            {**place.steps, step.name: make_entry(step, known)},
            known if step.when is None else join_shapes([known, place.previous]),
            place.heard if kept else heard,
            place.names,
            {**place.null_causes, **causes},
            certain,
            written=place.written,
            latest=follow_writes(step, output, place.latest),
        )

    def _check_update(self, step: AnyStep, output: Shape, path: str) -> None:
        if not step.updates_context or output.may_be("object") or output.types == {"null"}:
            return
        # The text of an agent may be a JSON object; what a person types in answer to a question is none.
        texts = output.values or ()
        may_hold = not texts or any(isinstance(text, str) and isinstance(read_structure(text), dict) for text in texts)
        if output.step or not output.may_be("text") or not may_hold:
            message = f"updates_context needs an object, but the output of {step.name} is none"
            hint = "write sink_to: NAME, or a mapping, such as input: {count: 1}"
            self.report.add(f"{path}.updates_context", "bad_shape", message, hint)
        elif not texts:
            message = f"the output of {step.name} is a text: where that is no JSON object, updates_context fails"
            hint = "give its agent an output_schema, or write sink_to: NAME"
            self.report.warn(f"{path}.updates_context", "text_update", message, hint)
