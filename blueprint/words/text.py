"""Expressions and templates in plain words, for all of `explain`: `context.draft` is "draft from the context"."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jinja2 import Environment, nodes

from holdfast.blueprint.durations import say_duration
from holdfast.blueprint.expressions.error import ExpressionError, shorten
from holdfast.blueprint.expressions.parse import is_plain, parsed_expression, parsed_template
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.questions import Asked
from holdfast.blueprint.words.lists import FILTERED, METHODS, say_list_filter

LONGEST = 240
"""The most characters shown of one text of the author."""
_LONGEST_VALUE = 60
_LISTED = 12
_LEXER = Environment(keep_trailing_newline=True)  # for its lexer, and constants  # nosec B701


class _NotSimple(Exception):
    """An expression without plain words; the author's source is quoted instead."""


@dataclass(frozen=True)
class Vocabulary:
    """The words for the names that expressions can read at one place of a blueprint."""

    roots: Mapping[str, str]
    answers: Mapping[str, Asked] = field(default_factory=dict)
    """The steps whose output is a person's answer, with the question they ask."""
    keys: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    """What the steps are called that have a label beside their name."""
    conversing: bool = False
    """True if an agent without an input works on a conversation."""

    def after(self, previous: str) -> Vocabulary:
        """Return the vocabulary after a step with this result."""
        return self.with_roots(previous_step=previous, output=previous)

    def with_roots(self, **roots: str) -> Vocabulary:
        return replace(self, roots={**self.roots, **roots})

    @property
    def previous(self) -> str:
        return self.roots.get("previous_step", "the previous output")

    def name_of_result(self, step: str) -> str:
        """Return the name of a step's result."""
        label = self.label(step)
        if step not in self.answers:
            return f"the output of {label}"
        question = self.answers[step]
        is_review = question.yes_or_no and not question.permits
        return f"what was approved in {label}" if is_review else f"the answer to {label}"

    def label(self, step: str) -> str:
        """Return what a step is called."""
        return self.labels.get(step, step)


CONTEXT_PATHS = {
    ("context", "scratchpad", "history"): "the conversation",
    ("context", "scratchpad", "notes"): "the notes",
    ("context", "scratchpad", "last_agent_command", "action"): "the agent's last command",
}
RUN = Vocabulary(
    {
        "input": "the input",
        "context": "the context",
        "previous_step": "the input",
        "output": "the input",
        "resume_input": "the last answer",
        "iteration": "the number of the iteration",
        "history": "the conversation",
        "item": "the item",
        "index": "the number of the item, from 0",
        "error": "the error",
        "report": "the report on the items",
    },
    keys=CONTEXT_PATHS,
)
_OWNERS = ("the input", "the item", "the call", "the error")
"""Owners that take a possessive: "the input's payee", but "draft from the context"."""


def condition(expression: str, names: Vocabulary) -> str:
    """Return a condition as a clause.

    >>> condition("output == 'stop' or context.score > 3 and not context.notes", RUN.after("the answer"))
    "the answer is 'stop', or score from the context is more than 3 and notes from the context is false or empty"
    >>> condition("context.n % 3 == 1", RUN)
    '`context.n % 3 == 1` holds'
    """
    try:
        return _clause(parsed_expression(expression), names)
    except (_NotSimple, ExpressionError):
        return f"`{one_line(expression)}` holds"


def choice(expression: str, names: Vocabulary) -> str | None:
    """Return a boolean expression as a clause; None for one with another value."""
    try:
        node = parsed_expression(expression)
        yes_or_no = (
            isinstance(node, nodes.Compare | nodes.Not | nodes.Test) or _find_permission(node, names) is not None
        )
        return _clause(node, names) if yes_or_no else None
    except (_NotSimple, ExpressionError):
        return None


def value(expression: str, names: Vocabulary) -> str:
    """Return an expression as a noun.

    >>> value("input.payee", RUN), value("steps.ask.output.city | default('Rome')", RUN)
    ("the input's payee", "city from the output of ask (or 'Rome', if there is none)")
    >>> value("(item | first).payee.name", RUN)
    'payee.name from the first of the item'
    """
    try:
        return _noun(parsed_expression(expression), names)
    except (_NotSimple, ExpressionError):
        return f"`{one_line(expression)}`"


def say_template(template: object, names: Vocabulary) -> str:
    """Return the words for a template: its text in quotes, its expressions in words between brackets.

    >>> say_template("Pay {{ input.amount }} EUR?", RUN), say_template("{{ input }}", RUN)
    ('"Pay [the input\\'s amount] EUR?"', 'the input')
    >>> say_template({"n": 3, "x": "{{ item }}"}, RUN)
    'n (3) and x (the item)'
    >>> say_template("{{ '{' }} {{ '' if item is none else item }} {{ input.x | default({'n': 1}) }}", RUN)
    '"{ [the item] [the input\\'s x (or {"n": 1}, if there is none)]"'
    """
    match template:
        case str():
            return _text(template, names)
        case dict() if template:
            return enumerate_words(
                [f"{one_line(str(key), 40)} ({say_template(part, names)})" for key, part in template.items()]
            )
        case list() if template:
            return f"the list of {enumerate_words([say_template(part, names) for part in template])}"
    return constant(template)


def say_value(template: str, names: Vocabulary) -> str:
    """Return the words for a template, or for a bare expression."""
    return say_template(template, names) if "{" in template else value(template, names)


def say_unquoted(template: object, names: Vocabulary) -> str:
    """Return the words for a template without the quotes.

    >>> say_unquoted("Pay {{ input }}?", RUN)
    'Pay [the input]?'
    """
    return say_template(template, names).removeprefix('"').removesuffix('"')


def _text(template: str, names: Vocabulary) -> str:
    if is_plain(template):
        return quote(template)
    try:
        whole = parsed_template(template).whole
        pieces = list(_pieces(template))
        if whole is not None:
            return value(pieces[0][1], names)
    except (_NotSimple, ExpressionError):
        return quote(template)
    return quote("".join(_say_piece(text, names) if filled_in else text for filled_in, text in pieces))


def _say_piece(expression: str, names: Vocabulary) -> str:
    """Return the words between brackets for an expression in a text; a text itself as it is, such as a brace."""
    match parsed_expression(expression):
        case nodes.Const(value=str(text)):
            return text
    return f"[{value(expression, names)}]"


def _pieces(template: str) -> Iterator[tuple[bool, str]]:
    """Yield each text of a template (False), and the source of each expression in it (True)."""
    # The lexer, because a parsed template no longer has the source of its expressions.
    inside: list[str] | None = None
    for _, kind, text in _LEXER.lex(template):
        match kind:
            case "variable_begin":
                inside = []
            case "variable_end":
                yield True, "".join(inside or [])
                inside = None
            case "block_begin":
                raise _NotSimple
            case _ if inside is not None:
                inside.append(text)
            case "data":
                yield False, text


# Nouns


def _noun(node: nodes.Node, names: Vocabulary) -> str:
    match node:
        case nodes.Const():
            return constant(node.value)
        case nodes.Neg(node=nodes.Const(value=number)):
            return f"-{constant(number)}"
        case nodes.Dict():
            return constant(_read_constant(node))
        case nodes.Name() | nodes.Getattr() | nodes.Getitem(arg=nodes.Const(value=str())):
            return _reference(node, names)
        case nodes.Getitem(node=of, arg=arg):
            return f"the {_say_part(arg)} of {_single(of, names)}"
        case nodes.List() | nodes.Tuple():
            return (
                f"the list of {enumerate_words([_noun(item, names) for item in node.items])}"
                if node.items
                else "no items"
            )
        case nodes.Filter() if (words := say_list_filter(node, lambda part: _single(part, names))) is not None:
            return words
        case nodes.Filter(kwargs=[], node=nodes.Expr() as of):
            return _say_filter(node.name, _single(of, names), node.args, names)
        case nodes.Call(kwargs=[], node=nodes.Name(name="len"), args=[of]):
            return f"the length of {_single(of, names)}"
        case nodes.Call(kwargs=[], node=nodes.Name(name="min" | "max" as name), args=[_, _, *_] as args):
            compared = enumerate_words([_single(arg, names) for arg in args])
            return f"the {'least' if name == 'min' else 'greatest'} of {compared}"
        case nodes.Call(kwargs=[], node=nodes.Getattr(node=of, attr="get"), args=[nodes.Const(value=str(key)), *other]):
            found = _reference(nodes.Getattr(of, key, "load"), names)
            return _say_filter("default", found, other, names) if other else found
        case nodes.Call(kwargs=[], node=nodes.Getattr(node=of, attr=name), args=[]) if name in METHODS:
            return _say_filter(METHODS[name], _single(of, names), [], names)
        case nodes.Concat() | nodes.BinExpr():
            return _say_operation(node, names)
        case nodes.CondExpr(
            test=nodes.Test(name="none", node=of), expr1=nodes.Const(value=""), expr2=nodes.Expr() as it
        ):
            if of == it:
                return _noun(of, names)
            raise _NotSimple
        case nodes.CondExpr(test=test, expr1=then, expr2=nodes.Expr() as otherwise):
            return f"{_single(then, names)} if {_clause(test, names)}, else {_single(otherwise, names)}"
    raise _NotSimple


def _say_operation(node: nodes.Node, names: Vocabulary) -> str:
    """Return a joined text, a longer list, or a result of arithmetic."""
    match node:
        case nodes.Concat(nodes=parts):
            return quote("".join(_say_joined(part, names) for part in parts))
        case nodes.Add(left=list_, right=nodes.List(items=[_, *_] as added)):
            return f"{_noun(list_, names)} with {enumerate_words([_noun(item, names) for item in added])} added"
        case nodes.Add() | nodes.Sub():
            sign = "plus" if isinstance(node, nodes.Add) else "minus"
            return f"{_noun(node.left, names)} {sign} {_single(node.right, names)}"
        case nodes.Mul() | nodes.Div():
            sign = "times" if isinstance(node, nodes.Mul) else "divided by"
            return f"{_single(node.left, names)} {sign} {_single(node.right, names)}"
    raise _NotSimple


def _say_joined(part: nodes.Node, names: Vocabulary) -> str:
    """Return a part of a joined text: a constant as it is, anything else in brackets, as in a template."""
    match part:
        case nodes.Const(value=str(text)):
            return text
    return f"[{_noun(part, names)}]"


def _say_part(index: nodes.Node) -> str:
    """Return which elements an index or a slice takes."""
    match index:
        case nodes.Const(value=0) | nodes.Slice(start=None, stop=nodes.Const(value=1), step=None):
            return "first"
        case nodes.Neg(node=nodes.Const(value=1)):
            return "last"
        case nodes.Slice(start=None, stop=nodes.Const(value=int(count)), step=None):
            return f"first {count}"
        case nodes.Slice(start=nodes.Neg(node=nodes.Const(value=int(count))), stop=None, step=None):
            return f"last {count}"
    raise _NotSimple


def _read_constant(node: nodes.Expr) -> object:
    try:
        return node.as_const(nodes.EvalContext(_LEXER))
    except nodes.Impossible:
        raise _NotSimple from None


def _single(node: nodes.Node, names: Vocabulary) -> str:
    """Return a noun that stays unambiguous inside a longer phrase. Raises `_NotSimple` for others."""
    if isinstance(node, nodes.BinExpr | nodes.CondExpr):
        raise _NotSimple
    return _noun(node, names)


def _reference(node: nodes.Node, names: Vocabulary) -> str:
    """Return the words for a value and the keys read from it."""
    owner, keys = _owner_and_keys(node)
    match owner, keys:
        case nodes.Name(name=root), _ if (root, *keys) in names.keys:
            return names.keys[(root, *keys)]
        case nodes.Name(name="steps"), [step, ("output" | "answer"), *rest]:
            return _below(rest, names.name_of_result(step))
        case nodes.Name(name="steps"), [step, "reply", "by"]:
            return f"whoever answered {step}"
        case nodes.Name(name="steps"), [step, "reply", *rest]:
            return _below(rest, f"the reply to {step}")
        case nodes.Name(name="steps"), [step, "reason"]:
            return f"the reason why {step} was skipped"
        case nodes.Name(name="steps"), [step, ("error" | "status") as part, *rest]:
            return _below(rest, f"the {part} of {step}")
        case nodes.Name(name="steps"), [step, *rest]:
            return _below(rest, f"the step {step}")
        case nodes.Name(name=root), _:
            return _below(keys, names.roots.get(root, root))
    return _below(keys, _single(owner, names))


def _owner_and_keys(node: nodes.Node) -> tuple[nodes.Node, list[str]]:
    """Return the value that a reference begins with, and the keys that are read from it, one below the other."""
    match node:
        case nodes.Getattr(node=above, attr=key) | nodes.Getitem(node=above, arg=nodes.Const(value=str(key))):
            owner, keys = _owner_and_keys(above)
            return owner, [*keys, key]
    return node, []


def _below(keys: Sequence[str], owner: str) -> str:
    if not keys:
        return owner
    path = one_line(".".join(keys), _LONGEST_VALUE)
    return f"{owner}'s {path}" if owner in _OWNERS else f"{path} from {owner}"


_JOINED = {"\n": "line by line", "\n\n": "a paragraph each", ", ": "separated by commas", ",": "separated by commas"}


def _say_filter(name: str, of: str, args: Sequence[nodes.Expr], names: Vocabulary) -> str:
    match name, args:
        case "join", [nodes.Const(value=str(separator))]:
            return f"{of}, {_JOINED.get(separator) or f'joined with {separator!r}'}"
        case (("default" | "d"), [other, *_]):
            return f"{of} (or {_single(other, names)}, if there is none)"
        case _, [] if name in FILTERED:
            return FILTERED[name].replace("{}", of, 1)
    raise _NotSimple


# Clauses

_COMPARED = {
    "eq": "is",
    "ne": "is not",
    "gt": "is more than",
    "gteq": "is at least",
    "lt": "is less than",
    "lteq": "is at most",
}
_OPPOSITE = {
    "eq": "ne",
    "ne": "eq",
    "gt": "lteq",
    "lteq": "gt",
    "lt": "gteq",
    "gteq": "lt",
    "in": "notin",
    "notin": "in",
}
_TESTED = {
    "defined": ("is given", "is not given"),
    "undefined": ("is not given", "is given"),
    "none": ("is null", "is not null"),
    "empty": ("is empty", "is not empty"),
    "alike": ("is", "is not"),
    "containing": ("contains", "does not contain"),
}


def _clause(node: nodes.Node, names: Vocabulary, negated: bool = False) -> str:
    match node:
        case nodes.Const(value=bool(truth)):
            return "always" if truth is not negated else "never"
        case nodes.Not(node=inner):
            return _clause(inner, names, not negated)
        case nodes.And(left=left, right=right):
            return _joined_clauses("or" if negated else "and", left, right, names, negated)
        case nodes.Or(left=left, right=right):
            return _joined_clauses("and" if negated else "or", left, right, names, negated)
        case nodes.Compare(expr=left, ops=[nodes.Operand(op=operator, expr=right)]):
            return _say_comparison(left, operator, right, names, negated)
        case nodes.Test(node=of, name=name, args=[] | None, kwargs=[] | None) if name in _TESTED:
            return f"{_single(of, names)} {_TESTED[name][negated]}"
        case nodes.Test(node=of, name=name, args=[other], kwargs=[] | None) if name in _TESTED:
            return f"{_single(of, names)} {_TESTED[name][negated]} {_single(other, names)}"
        case nodes.Call(kwargs=[], node=nodes.Getattr(node=of, attr="startswith" | "endswith" as name), args=[other]):
            verb = ("does not begin" if negated else "begins") if name == "startswith" else "ends"
            verb = "does not end" if negated and name == "endswith" else verb
            return f"{_single(of, names)} {verb} with {_single(other, names)}"
    if (step := _find_permission(node, names)) is not None:
        return f"{step} was {'not ' if negated else ''}granted"
    return f"{_single(node, names)} is {'false or empty' if negated else 'true or not empty'}"


def _find_permission(node: nodes.Node, names: Vocabulary) -> str | None:
    """Return the step whose permission the expression reads, if it does."""
    permissions = [step for step, question in names.answers.items() if question.permits]
    match _owner_and_keys(node):
        case nodes.Name(name="steps"), [step, "output"]:
            return step if step in permissions else None
        case nodes.Name(name=root), []:
            return next((step for step in permissions if names.roots.get(root) == names.name_of_result(step)), None)
    return None


def _joined_clauses(word: str, left: nodes.Node, right: nodes.Node, names: Vocabulary, negated: bool) -> str:
    """Return two clauses joined; "either" shows that an "or" inside an "and" is evaluated first."""
    clauses = [_clause(part, names, negated) for part in (left, right)]
    if word == "or":
        return f"{clauses[0]}, or {clauses[1]}"
    return " and ".join(f"(either {text})" if ", or " in text else text for text in clauses)


def _say_comparison(left: nodes.Node, operator: str, right: nodes.Node, names: Vocabulary, negated: bool) -> str:
    match operator, right:
        case (("eq" | "ne"), nodes.Const(value=bool(granted))) if _find_permission(left, names) is not None:
            return _clause(left, names, negated ^ ((operator == "eq") is not granted))
    operator = _OPPOSITE[operator] if negated else operator
    match operator, right:
        case (("in" | "notin"), nodes.List(items=[_, *_]) | nodes.Tuple(items=[_, *_])):
            choices = enumerate_words([_noun(item, names) for item in right.items], "or")
            return f"{_operand(left, names)} is {'none' if operator == 'notin' else 'one'} of {choices}"
        case (("in" | "notin"), _):
            verb = "does not contain" if operator == "notin" else "contains"
            return f"{_single(right, names)} {verb} {_operand(left, names)}"
    return f"{_operand(left, names)} {_COMPARED[operator]} {_operand(right, names)}"


def _operand(node: nodes.Node, names: Vocabulary) -> str:
    counted = isinstance(node, nodes.Add | nodes.Sub | nodes.Mul | nodes.Div)
    return _noun(node, names) if counted else _single(node, names)


# Phrases


def constant(literal: object) -> str:
    """Return a constant as an author would write it.

    >>> constant("warm"), constant(None), constant(3.0), constant([True])
    ("'warm'", 'null', '3', '[true]')
    """
    match literal:
        case str():
            return f"'{one_line(literal, _LONGEST_VALUE)}'"
        case float() if literal.is_integer() and abs(literal) < 2**53:  # larger floats skip whole numbers
            return str(int(literal))
    return one_line(json.dumps(literal, ensure_ascii=False, default=str), _LONGEST_VALUE)


def quote(text: str) -> str:
    return f'"{one_line(text)}"'


def as_sentence(text: str) -> str:
    """Return the text with a full stop, unless the author's text ends a sentence already.

    >>> as_sentence('"Which tone?"'), as_sentence("text: A goal."), as_sentence("the output of say")
    ('"Which tone?"', 'text: A goal.', 'the output of say.')
    """
    return text if text.removesuffix('"').endswith((".", "?", "!", "…")) else f"{text}."


def one_line(text: str, limit: int = LONGEST) -> str:
    """Return the text in one line, shortened to `limit` characters.

    >>> one_line("Dear all,\\n\\n  hello", 14)
    'Dear all, hel…'
    """
    return shorten(" ".join(text.split()), limit)


def enumerate_words(words: Sequence[str], last: str = "and") -> str:
    """Return words as an enumeration; a long one is cut.

    >>> enumerate_words(["a", "b", "c"]), enumerate_words(["a", "b"], "or")
    ('a, b and c', 'a or b')
    """
    if len(words) > _LISTED:
        words = [*words[: _LISTED - 1], f"{len(words) - _LISTED + 1} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else "nothing"


def describe_span(span: float | str, names: Vocabulary) -> str:
    """Return a duration in words, or what a template of one says.

    >>> describe_span(5400, RUN), describe_span("{{ input.days }}d", RUN)
    ('1 hour 30 minutes', "[the input's days]d")
    """
    return say_unquoted(span, names) if isinstance(span, str) else say_duration(span)


def json_list(text: str) -> list[JSON] | None:
    """Return the list that a text is as JSON, else None."""
    try:
        enumerate_words = json.loads(text)
    except ValueError:
        return None
    return enumerate_words if isinstance(enumerate_words, list) else None
