"""Rules of what people said: a consent is tested so that a no does nothing, and a text is no object."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import nodes

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.functions import FUNCTIONS
from holdfast.blueprint.expressions.walk import Walker
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds.knowledge import Branching
from holdfast.blueprint.shape import UNKNOWN, Shape
from holdfast.blueprint.shapes.place import JudgedText
from holdfast.blueprint.shapes.report import find_chain, locate_key

_OF_ANSWER = ("verdict", "payload")
"""Keys of the answer to a review, for which its output may be taken."""
_IN_EVERY_REPLY: Sequence[Sequence[str]] = ([], ["action"], ["at"], ["by"], ["verdict"])
"""Paths of a reply that are true whatever was answered."""
_OF_REVIEW: Sequence[Sequence[str]] = ([], ["status"], ["reply"], ["reply", "action"], ["reply", "verdict"])
_OF_PERMISSION = (*_OF_REVIEW, ["output"])
"""Paths of a step that asked for a consent which are known for a yes and for a no."""
_YES: JSONObject = {
    "output": True,
    "status": "completed",
    "reason": None,
    "reply": {"action": "accept", "verdict": "unchanged"},
}
_NO: JSONObject = {**_YES, "output": False, "reply": {"action": "accept", "verdict": "rejected"}}
_ENDS: Sequence[JSONObject] = (_YES, _NO, {**_YES, "output": None, "status": "skipped", "reply": None})
"""How a step that asks for a consent may end: a yes, a no, skipped; as far as these paths go."""
_COMPARE = "compare it with true or false, or test it as it is"


def check_truth(judged: JudgedText, node: nodes.Node, shape: Shape) -> None:
    """Report a choice, a review or a reply that is tested for truth."""
    report_truth(judged, shape)
    if (replied := _find_replied(judged, node, _IN_EVERY_REPLY)) is not None:
        message = f"the reply to {replied.step} is there after a no, too, and so always true"
        judged.report("bad_consent", message, _suggest_test(replied))


def report_truth(judged: JudgedText, shape: Shape) -> None:
    if shape.is_choice:
        message = f"the answer to {shape.step} is tested for truth, but every option of it is a text, and so true"
        judged.report("bad_consent", message, f"compare it: steps.{shape.step}.output == 'OPTION'")
    elif shape.is_review:
        message = f"the review {shape.step} is tested for truth, but what was approved may be empty or 0"
        judged.report("bad_consent", message, _suggest_test(shape))


def check_after_no(judged: JudgedText, condition: nodes.Node) -> None:
    """Report a condition, or a part of one, that looks at one consent alone, and holds after a no as after a yes."""
    found, others = _split(judged, condition)
    for part in others:
        match part:
            case nodes.And() | nodes.Or():
                check_after_no(judged, part)
    for consent in {shape.step: shape for shape, _ in found}.values():
        parts = [part for shape, part in found if shape.step == consent.step]
        if all(_holds_in_any_case(judged, part, consent) for part in parts):
            _report_after_no(judged, "it is true", consent)


def check_choice_after_no(judged: JudgedText, value: nodes.Node) -> None:
    """Report a choice among branches that looks at one consent alone, and is the same after a no as after a yes."""
    consent = _find_consent(judged, value)
    if consent is None or find_chain(value)[1][1:] == ["status"]:
        return
    yes, no, _ = (_evaluate(value, consent.step, end) for end in _ENDS)
    if yes is not None and yes == no:
        _report_after_no(judged, "the branch is the same", consent)


def _report_after_no(judged: JudgedText, what: str, consent: Shape) -> None:
    judged.report("bad_consent", f"{what} after a no to {consent.step}, too", _suggest_test(consent))


def _split(judged: JudgedText, condition: nodes.Node) -> tuple[list[tuple[Shape, nodes.Node]], list[nodes.Node]]:
    """Return the parts that must all hold: those that look at one consent alone, each with it, and the others."""
    if (consent := _find_consent(judged, condition)) is not None:
        return [(consent, condition)], []
    match condition:
        case nodes.And(left=left, right=right):
            sides = _split(judged, left), _split(judged, right)
            return [one for found, _ in sides for one in found], [one for _, others in sides for one in others]
        case nodes.Or(left=left, right=right):
            check_after_no(judged, left)
            check_after_no(judged, right)
            return [], []
    return [], [condition]


def _find_consent(judged: JudgedText, part: nodes.Node) -> Shape | None:
    """Return the one permission or review that a part of a condition looks at; None if it looks at anything else."""
    reads = [_resolve(judged, root, keys) for root, keys in _find_reads(part)]
    known = [read for read in reads if read is not None]
    if not known or len(known) < len(reads) or len({consent.step for consent, _ in known}) > 1:
        return None
    consent = known[0][0]
    looked_at = _OF_PERMISSION if consent.is_permission else _OF_REVIEW if consent.is_review else ()
    return consent if all(path in looked_at for _, path in known) else None


def _resolve(judged: JudgedText, root: str, keys: list[str]) -> tuple[Shape, list[str]] | None:
    """Return what a step gives that a reference reads, and the path below the step; None for other references."""
    match root, keys:
        case "steps", [name, *path] if name in judged.place.steps:
            return judged.place.steps[name].find_key("output") or UNKNOWN, path
        case (("previous_step" | "output" | "resume_input" | "context"), _):
            shape: Shape | None = judged.place.find(root)
            for key in keys:
                shape = None if shape is None else shape.find_key(key)
            if shape is not None and shape.is_permission:
                return shape, ["output"]
    return None


def _find_reads(node: nodes.Node) -> list[tuple[str, list[str]]]:
    """Return every reference in an expression: the name and the keys below it."""
    root, keys = find_chain(node)
    if root:
        return [] if root in FUNCTIONS else [(root, keys)]
    return [read for child in node.iter_child_nodes() for read in _find_reads(child)]


def _holds_in_any_case(judged: JudgedText, part: nodes.Node, consent: Shape) -> bool:
    yes, no, skipped = (_evaluate(part, consent.step, end) for end in _ENDS)
    tells = any(constant.value == "skipped" for constant in part.find_all(nodes.Const))
    asks_whether_asked = consent.step in judged.place.null_causes and tells and not skipped
    return bool(yes and no) and not asks_whether_asked


def _evaluate(part: nodes.Node, step: str, end: JSONObject) -> JSON:
    given = end["output"]
    names: JSONObject = {"steps": {step: end}, "previous_step": given, "output": given, "resume_input": given}
    for root, keys in _find_reads(part):
        if root == "context":
            value = given
            for key in reversed(keys):
                value = {key: value}
            names["context"] = value
    try:
        return Walker(names).value(part)
    except ExpressionError:
        return None


def check_test(judged: JudgedText, node: nodes.Test, shape: Shape) -> None:
    """Report an answer that is tested for being there, which it is after a no, too."""
    if node.name in ("defined", "undefined", "boolean") and (shape.is_permission or shape.is_review):
        judged.report("bad_consent", f"what {shape.step} gives is defined after a no, too", _suggest_test(shape))


def check_reply(judged: JudgedText, node: nodes.Node) -> None:
    """Report the reply of a step that asks nobody."""
    match find_chain(node):
        case "steps", [name, "reply"] if name in judged.ask_nobody:
            message = f"the step {name!r} asks nobody itself, and has no reply"
            hint = "read the reply of a hitl, clarify or wait step, or of a plan with confirm: true"
            judged.report("bad_shape", message, hint)


def check_key(judged: JudgedText, node: nodes.Getattr | nodes.Getitem, of: Shape, key: str, *, has_key: bool) -> bool:
    """Report a key of an answer that is looked for in what the step gives; return whether there is one."""
    at = locate_key(node.node, key)
    if of.is_permission:
        message = f"the output of the permission {of.step} is true or false: it has no {key!r}"
        reply = f"; who, when and why: steps.{of.step}.reply"
        judged.report("bad_consent", message, f"write steps.{of.step}.output{reply}", at)
        return True
    if of.is_review and key in _OF_ANSWER and not (of.is_known and has_key or key in of.keys):
        message = f"the output of the review {of.step} is what was approved, or null: {key!r} is not in it"
        judged.report("bad_consent", message, f"write steps.{of.step}.output, or steps.{of.step}.reply.verdict", at)
        return True
    return False


def check_comparison(judged: JudgedText, left: nodes.Node, value: Shape, operand: nodes.Operand, other: Shape) -> bool:
    """Report an answer that is compared with what it never is; return whether the comparison is one of an answer."""
    if operand.op in ("in", "notin") and value.is_permission and _lacks_truth(operand.expr):
        judged.report("bad_consent", f"{value.step} gives true or false, and none of these", _COMPARE)
        return True
    found = False
    for node, shape, constant in ((left, value, operand.expr), (operand.expr, other, left)):
        replied = _find_replied(judged, node, [["action"]])
        if replied is not None and isinstance(constant, nodes.Const) and constant.value == "accept":
            message = f"a no to {replied.step} is an answer, too, with the action accept"
            judged.report("bad_consent", message, _suggest_test(replied))
            found = True
        if operand.op not in ("eq", "ne") or not isinstance(constant, nodes.Const):
            continue
        if shape.is_choice and isinstance(constant.value, bool):
            report_truth(judged, shape)
            found = True
        elif shape.is_permission and not isinstance(constant.value, bool | None):
            message = f"{shape.step} gives true or false, and never {constant.value!r}"
            judged.report("bad_consent", message, _COMPARE)
            found = True
    return found


def check_branches(judged: JudgedText, branching: Branching, shape: Shape) -> bool:
    """Report branches that do not fit an answer; return whether the condition is a permission."""
    if branching.keys and branching.keys <= {"true", "false"}:
        report_truth(judged, shape)
    if not shape.is_permission:
        return shape.is_review or (shape.is_choice and branching.keys <= {"true", "false"})
    if wrong := sorted(branching.keys - {"true", "false"}):
        message = f"the branch {wrong[0]!r} is never chosen: {shape.step} gives true or false"
        judged.report("bad_consent", message, "name the branches true and false")
    elif not branching.has_default and branching.keys != {"true", "false"}:
        lacking = "false" if "true" in branching.keys else "true"
        message = f"there is no branch for {lacking}, which {shape.step} may give"
        judged.report("bad_consent", message, f"add a branch {lacking}, or a default_branch")
    return True


def _lacks_truth(values: nodes.Node) -> bool:
    """Return whether a list has constants in it, and neither true nor false."""
    return isinstance(values, nodes.List) and not any(
        not isinstance(value, nodes.Const) or isinstance(value.value, bool) for value in values.items
    )


def _find_replied(judged: JudgedText, node: nodes.Node, keys: Sequence[Sequence[str]]) -> Shape | None:
    """Return what a permission or a review gives whose reply an expression reads at one of these paths."""
    match find_chain(node):
        case "steps", [name, "reply", *rest] if rest in keys and name in judged.place.steps:
            known = judged.place.steps[name].find_key("output") or UNKNOWN
            return known if known.is_permission or known.is_review else None
    return None


def _suggest_test(shape: Shape) -> str:
    """Return how a permission or a review is tested."""
    if shape.is_permission:
        return f"test steps.{shape.step}.output"
    return f"write steps.{shape.step}.reply.verdict in ['unchanged', 'edited']"
