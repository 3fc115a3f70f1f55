"""Rules of what people said: a consent is tested so that a no does nothing, and a text is no object."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jinja2 import nodes

from holdfast.blueprint.expressions import ExpressionError
from holdfast.blueprint.expressions.parse import parsed_expression, parsed_template
from holdfast.blueprint.findings import Findings, texts_of
from holdfast.blueprint.kinds import AnyStep, Block, Blueprint, Fallback
from holdfast.blueprint.kinds.known import UNKNOWN, KnownValue
from holdfast.blueprint.kinds.needs import has_needs
from holdfast.blueprint.kinds.walk import placed_steps

_PREVIOUS = ("previous_step", "output")
_OF_ANSWER = ("verdict", "payload")
"""Keys of the answer to a review, for which its output may be taken."""
_DECLARED = {"type", "properties"}
_IN_EVERY_REPLY: Sequence[Sequence[str]] = ([], ["action"], ["at"], ["by"], ["verdict"])
"""Paths of a reply that are true whatever was answered."""


@dataclass(frozen=True)
class _Reach:
    """What is known of the names that an expression reads in one place."""

    steps: Mapping[str, KnownValue]
    previous: KnownValue = UNKNOWN
    heard: KnownValue = UNKNOWN
    """The last answer: `resume_input`."""


def check_consents(blueprint: Blueprint, findings: Findings) -> None:
    _Consents(blueprint, findings).check()


class _Consents:
    def __init__(self, blueprint: Blueprint, findings: Findings) -> None:
        self.blueprint, self.findings = blueprint, findings
        self.sunk: dict[str, KnownValue] = {}
        """What is known of paths in the context that only such steps write."""
        self.found: set[tuple[str, str]] = set()
        steps = placed_steps(blueprint.steps, "steps")
        self.ask_nobody = {step.name for _, step in steps if not step.gives_reply}

    def check(self) -> None:
        self._find_sinks()
        last = self._steps(self.blueprint.steps, "steps", _Reach({}))
        if self.blueprint.output is not None:
            self._template(self.blueprint.output, "output", last)

    # What is known

    def _find_sinks(self) -> None:
        """Note the paths that one kind of answer alone is written to, so that what is read there is known."""
        written: dict[str, list[KnownValue]] = {}
        unknown = False
        for _, step in placed_steps(self.blueprint.steps, "steps"):
            unknown = unknown or step.updates_context
            if step.sink_to is not None:
                known = step.known_output(UNKNOWN, self.blueprint) if step.answered_question is not None else UNKNOWN
                written.setdefault(step.sink_to.removeprefix("context."), []).append(known)
            for target in _targets(step.model_dump(exclude_defaults=True)):
                written.setdefault(target.removeprefix("context."), []).append(UNKNOWN)
        for path, values in written.items():
            if not unknown and all(value.is_like(values[0]) for value in values):
                self.sunk[path] = values[0]

    def _steps(self, steps: Sequence[AnyStep], path: str, place: _Reach) -> _Reach:
        """Check a list of steps; return what is known after it."""
        if has_needs(steps):
            return self._steps_with_needs(steps, path, place)
        for index, step in enumerate(steps):
            place = self._step(step, f"{path}[{index}]", place)
        return place

    def _steps_with_needs(self, steps: Sequence[AnyStep], path: str, place: _Reach) -> _Reach:
        """Check a list of steps of which each sees those that it needs; who has answered before is not known."""
        after: dict[str, _Reach] = {}
        for index, step in enumerate(steps):
            before = [after[name] for name in step.needs if name in after]
            seen = {name: known for reach in before for name, known in reach.steps.items()}
            previous = before[0].previous if before else place.previous
            reach = self._step(step, f"{path}[{index}]", _Reach({**place.steps, **seen}, previous))
            after[step.name] = reach
        known = {name: value for reach in after.values() for name, value in reach.steps.items()}
        return _Reach({**place.steps, **known}, reach.previous)

    def _step(self, step: AnyStep, path: str, place: _Reach) -> _Reach:
        input_ = self._value_of(step.input_template, place)
        inside = replace(place, previous=input_)
        for key, template in step.reads().items():
            self._template(template, f"{path}.{key}", place if key == step.input_key else inside)
        for key, condition in step.conditions().items():
            self._condition(condition, f"{path}.{key}", place if key == "when" else inside)
        self._branches(step, path, inside)
        for key, block in step.blocks().items():
            self._block(block, path, key, place)
        if isinstance(step.on_error, Fallback):
            self._step(step.on_error.fallback, f"{path}.on_error.fallback", place)
        output = step.known_output(input_, self.blueprint)
        # The text of an agent may be a JSON object; what a person types in answer to a question is none.
        if step.updates_context and not output.is_object and (output.step or not output.is_text):
            self._report_update(step, path)
        certain = step.when is None and step.on_error == "fail"
        heard = output if step.answered_question is not None and certain else UNKNOWN
        kept = step.answered_question is None and not step.blocks() and not step.asks_people and step.on_error == "fail"
        known = output if step.on_error == "fail" else UNKNOWN
        return _Reach(
            {**place.steps, step.name: known},
            output if certain else UNKNOWN,
            place.heard if kept else heard,
        )

    def _block(self, block: Block, path: str, key: str, place: _Reach) -> None:
        # At the start of a list its input is the previous output, and answers may come from elsewhere.
        last = self._steps(block.steps, f"{path}.{key}", _Reach(place.steps))
        for key_path, template in block.reads.items():
            self._template(template, f"{path}.{key_path}", _Reach(last.steps))
        for key_path, condition in block.conditions.items():
            self._condition(condition, f"{path}.{key_path}", last if block.loops else _Reach(last.steps))

    def _value_of(self, template: object, place: _Reach) -> KnownValue:
        """Return what is known of a rendered template."""
        if not isinstance(template, str):
            return KnownValue({"type": "object"}) if isinstance(template, dict) else UNKNOWN
        try:
            parsed = parsed_template(template)
        except ExpressionError:
            return UNKNOWN
        return UNKNOWN if parsed.whole is None else self._read(parsed.whole, place)[0]

    def _read(self, node: nodes.Node, place: _Reach) -> tuple[KnownValue, list[str]]:
        """Return the value that a reference begins with, and the keys that are read from it."""
        root, keys = _reference(node)
        if root in _PREVIOUS:
            return place.previous, keys
        match root, keys:
            case "steps", [name, "output", *more]:
                return place.steps.get(name, UNKNOWN), more
            case "resume_input", _:
                return place.heard, keys
            case "context", _:
                for length in range(len(keys), 0, -1):
                    if (known := self.sunk.get(".".join(keys[:length]))) is not None:
                        return known, keys[length:]
        return UNKNOWN, []

    # Expressions

    def _template(self, template: object, path: str, place: _Reach) -> None:
        for text_path, text in texts_of(template, path):
            try:
                parsed = parsed_template(text)
            except ExpressionError:
                continue  # reported with the names
            for node in parsed.body:
                self._visit(node, text_path, place)

    def _condition(self, expression: str, path: str, place: _Reach) -> None:
        try:
            node = parsed_expression(expression)
        except ExpressionError:
            return
        # The value of a condition that chooses a branch is a key, and no truth; see `_branches`.
        if path.endswith((".condition_expression", ".iterable_input")):
            self._visit(node, path, place)
        else:
            self._truth(node, path, place)

    def _branches(self, step: AnyStep, path: str, place: _Reach) -> None:
        """Check that a consent chooses among `true` and `false`, and that no choice or review does."""
        branching = step.branching
        if branching is None:
            return
        try:
            node = parsed_expression(branching.expression)
        except ExpressionError:
            return
        known, more = self._read(node, place)
        keys, key_path = branching.keys, f"{path}.condition_expression"
        if keys and keys <= {"true", "false"}:
            self._truth(node, key_path, place)
        if not known.is_permission or more:
            return
        if wrong := sorted(keys - {"true", "false"}):
            message = f"the branch {wrong[0]!r} is never chosen: {known.step} gives true or false"
            self._report(key_path, "bad_consent", message, "name the branches true and false")
        elif not branching.has_default and keys != {"true", "false"}:
            lacking = "false" if "true" in keys else "true"
            message = f"there is no branch for {lacking}, which {known.step} may give"
            self._report(key_path, "bad_consent", message, f"add a branch {lacking}, or a default_branch")

    def _truth(self, node: nodes.Node, path: str, place: _Reach) -> None:
        """Check an expression that is tested for truth."""
        match node:
            case nodes.Not(node=inner):
                self._truth(inner, path, place)
            case nodes.And(left=left, right=right) | nodes.Or(left=left, right=right):
                self._truth(left, path, place)
                self._truth(right, path, place)
            case nodes.CondExpr(test=test, expr1=first, expr2=second):
                self._truth(test, path, place)
                self._truth(first, path, place)
                if second is not None:
                    self._truth(second, path, place)
            case nodes.Name() | nodes.Getattr() | nodes.Getitem():
                known, more = self._read(node, place)
                if not more:
                    self._report_truth(known, path)
                if (replied := self._replied(node, place, _IN_EVERY_REPLY)) is not None:
                    message = f"the reply to {replied.step} is there after a no, too, and so always true"
                    self._report(path, "bad_consent", message, _suggest_test(replied))
                self._visit(node, path, place)
            case _:
                self._visit(node, path, place)

    def _replied(self, node: nodes.Node, place: _Reach, keys: Sequence[Sequence[str]]) -> KnownValue | None:
        """Return what a permission or a review gives whose reply an expression reads at one of these paths."""
        match _reference(node):
            case "steps", [name, "reply", *rest] if rest in keys:
                known = place.steps.get(name, UNKNOWN)
                return known if known.is_permission or known.is_review else None
        return None

    def _visit(self, node: nodes.Node, path: str, place: _Reach) -> None:
        """Check an expression or a statement whose value is used."""
        match node:
            case nodes.Not():
                self._truth(node, path, place)
            case nodes.And(left=left, right=right):
                self._truth(left, path, place)
                self._visit(right, path, place)
            case nodes.CondExpr(test=test):
                self._truth(test, path, place)
                for child in node.iter_child_nodes(exclude=("test",)):
                    self._visit(child, path, place)
            case nodes.If(test=test):
                self._truth(test, path, place)
                for child in node.iter_child_nodes(exclude=("test",)):
                    self._visit(child, path, place)
            case nodes.Compare(expr=left, ops=operands):
                for operand in operands:
                    self._compared(left, operand, path, place)
                for child in node.iter_child_nodes():
                    self._visit(child, path, place)
            case nodes.Test(node=tested, name="defined" | "undefined" | "boolean"):
                known, more = self._read(tested, place)
                if not more and (known.is_permission or known.is_review):
                    message = f"what {known.step} gives is defined after a no, too"
                    self._report(path, "bad_consent", message, _suggest_test(known))
                self._visit(tested, path, place)
            case nodes.Call(node=nodes.Getattr(node=of), args=arguments):
                for child in (of, *arguments):
                    self._visit(child, path, place)
            case nodes.Name() | nodes.Getattr() | nodes.Getitem():
                known, more = self._read(node, place)
                match _reference(node):
                    case "steps", [name, "reply", *_] if name in self.ask_nobody:
                        message = f"the step {name!r} asks nobody itself, and has no reply"
                        self._report(
                            path,
                            "bad_shape",
                            message,
                            "read the reply of a hitl, clarify or wait step, or of a plan with confirm: true",
                        )
                if more:
                    self._report_key(node, known, more[0], path)
                elif isinstance(node, nodes.Getitem):
                    self._visit(node.node, path, place)
            case _:
                for child in node.iter_child_nodes():
                    self._visit(child, path, place)

    def _compared(self, left: nodes.Node, operand: nodes.Operand, path: str, place: _Reach) -> None:
        for one, other in ((left, operand.expr), (operand.expr, left)):
            known, more = self._read(one, place)
            if operand.op in ("in", "notin") and one is left and known.is_permission and not more:
                self._report_list(known, other, path)
            replied = self._replied(one, place, [["action"]])
            if replied is not None and isinstance(other, nodes.Const) and other.value == "accept":
                message = f"a no to {replied.step} is an answer, too, with the action accept"
                self._report(path, "bad_consent", message, _suggest_test(replied))
            if more or operand.op not in ("eq", "ne") or not isinstance(other, nodes.Const):
                continue
            if known.is_choice and isinstance(other.value, bool):
                self._report_truth(known, path)
            elif known.is_permission and not isinstance(other.value, bool | None):
                message = f"{known.step} gives true or false, and never {other.value!r}"
                self._report(path, "bad_consent", message, "compare it with true or false, or test it as it is")

    def _report_list(self, known: KnownValue, values: nodes.Node, path: str) -> None:
        """Report a list in which the output of a permission is looked for and cannot be."""
        if isinstance(values, nodes.List) and not any(
            not isinstance(value, nodes.Const) or isinstance(value.value, bool) for value in values.items
        ):
            message = f"{known.step} gives true or false, and none of these"
            self._report(path, "bad_consent", message, "compare it with true or false, or test it as it is")

    # Problems

    def _report(self, path: str, code: str, message: str, hint: str, at: str | None = None) -> None:
        if (path, message) not in self.found:
            self.found.add((path, message))
            self.findings.add(path, code, message, hint, at=at)

    def _report_truth(self, known: KnownValue, path: str) -> None:
        read = f"steps.{known.step}"
        if known.is_choice:
            message = f"the answer to {known.step} is tested for truth, but every option of it is a text, and so true"
            self._report(path, "bad_consent", message, f"compare it: {read}.output == 'OPTION'")
        elif known.is_review:
            message = f"the review {known.step} is tested for truth, but what was approved may be empty or 0"
            self._report(path, "bad_consent", message, _suggest_test(known))

    def _report_key(self, node: nodes.Node, known: KnownValue, key: str, path: str) -> None:
        at = rf"(?:\.\s*|\[\s*\\?['\"])({re.escape(key)})\b"
        declared = bool(_DECLARED & known.schema.keys())
        if known.is_permission:
            message = f"the output of the permission {known.step} is true or false: it has no {key!r}"
            reply = f"; who, when and why: steps.{known.step}.reply"
            self._report(path, "bad_consent", message, f"write steps.{known.step}.output{reply}", at=at)
        elif known.is_review and key in _OF_ANSWER and not (declared and known.may_have(key)):
            message = f"the output of the review {known.step} is what was approved, or null: {key!r} is not in it"
            self._report(
                path,
                "bad_consent",
                message,
                f"write steps.{known.step}.output, or steps.{known.step}.reply.verdict",
                at=at,
            )
        elif key == "output" and _reference(node)[0] in _PREVIOUS and not known.may_have(key):
            root = _reference(node)[0]
            message = f"{root} is the output of the step before already, and has no 'output'"
            self._report(path, "bad_shape", message, f"write {root}", at)
        elif not known.is_object:
            message = f"{'a text' if known.is_text else 'what is read here'} has no key {key!r}"
            self._report(path, "bad_shape", message, "read it as a whole, or let it be an object", at)

    def _report_update(self, step: AnyStep, path: str) -> None:
        message = f"updates_context needs an object, but the output of {step.name} is none"
        self._report(f"{path}.updates_context", "bad_shape", message, "write sink_to: NAME, or remove it")


def _suggest_test(known: KnownValue) -> str:
    """Return how a permission or a review is tested."""
    if known.is_permission:
        return f"test steps.{known.step}.output"
    return f"write steps.{known.step}.reply.verdict in ['unchanged', 'edited']"


def _reference(node: nodes.Node) -> tuple[str, list[str]]:
    """Return the name that a reference begins with, and the keys below it; an empty name for other expressions."""
    match node:
        case nodes.Name(name=name):
            return name, []
        case nodes.Getattr(node=above, attr=key) | nodes.Getitem(node=above, arg=nodes.Const(value=str(key))):
            root, keys = _reference(above)
            return root, [*keys, key] if root else []
    return "", []


def _targets(value: object) -> Iterator[str]:
    """Yield every target of a write in the core form of a step."""
    match value:
        case dict():
            if isinstance(target := value.get("target"), str):
                yield target
            for part in value.values():
                yield from _targets(part)
        case list() | tuple():
            for part in value:
                yield from _targets(part)
