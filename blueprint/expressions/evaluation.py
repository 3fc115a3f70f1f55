"""Evaluate conditions and fill in templates. Used by the checks of blueprints, and by workflows.

Results share their parts with `names`: treat both as immutable.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import nodes

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.parse import is_plain, parsed_expression, parsed_template
from holdfast.blueprint.expressions.values import Undefined
from holdfast.blueprint.expressions.walk import Walker
from holdfast.blueprint.json_values import JSON

MAX_LEVELS = 100


def evaluate(expression: str, names: Mapping[str, JSON]) -> JSON:
    """Return the value of a bare expression. Raises `ExpressionError`, also if the value is undefined.

    >>> evaluate("draft.score >= 8 and not done", {"draft": {"score": 9}, "done": False})
    True
    >>> evaluate("context.goal", {"context": {"goals": []}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    holdfast.blueprint.expressions.error.ExpressionError: context.goal: ... (did you mean 'goals'?)
    """
    return _place_errors(expression, lambda: _present(parsed_expression(expression), Walker(names)))


def holds(expression: str, names: Mapping[str, JSON]) -> tuple[bool, JSON]:
    """Return whether a condition is true, and its value (null for one that is undefined).

    >>> holds("output.notes or output.score", {"output": {"notes": "", "score": 7}})
    (True, 7)
    """
    value = _place_errors(expression, lambda: _value(parsed_expression(expression), Walker(names)))
    return (False, None) if isinstance(value, Undefined) else (bool(value), value)


def render(template: object, names: Mapping[str, JSON]) -> JSON:
    """Return a template filled in; a text that is exactly one {{ … }} keeps the value's type, keys stay as they are.

    >>> render({"to": "Dear {{ who }}", "n": "{{ n }}"}, {"who": "Ada", "n": [3, None]})
    {'to': 'Dear Ada', 'n': [3, None]}
    >>> render("{% for x in n %}{{ loop.index }}. {{ x }};{% endfor %}", {"n": ["a", {"b": True}]})
    '1. a;2. {"b":true};'
    """
    return _fill_level(template, Walker(names), 0)


def check_expression(expression: str) -> None:
    """Raise `ExpressionError` if the expression cannot be read.

    >>> check_expression("history | jion(', ')")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    holdfast.blueprint.expressions.error.ExpressionError: ...unknown filter 'jion' (did you mean 'join'?)
    """
    parsed_expression(expression)


def check_template(template: object) -> None:
    """Raise `ExpressionError` if a text of the template cannot be read."""
    for text in _texts(template, 0):
        parsed_template(text)


def names_in(template: object) -> set[tuple[str, ...]]:
    """Return the free names that a template reads, each with the keys read below it.

    >>> sorted(names_in(["{{ steps.draft.output[0].x }}", "{% for i in input.all %}{{ i.id }}{% endfor %}"]))
    [('input', 'all'), ('steps', 'draft', 'output')]
    """
    return {chain for text in _texts(template, 0) for chain in free_names(parsed_template(text).body)}


def names_in_expression(expression: str) -> set[tuple[str, ...]]:
    """Return the free names that an expression reads, each with the keys read below it.

    >>> names_in_expression("steps['draft'].output == 'ok'")
    {('steps', 'draft', 'output')}
    """
    return free_names([parsed_expression(expression)])


def _fill_level(template: object, walker: Walker, level: int) -> JSON:
    _check_level(level)
    match template:
        case str():
            return template if is_plain(template) else _place_errors(template, lambda: _render_whole(template, walker))
        case dict():
            return {key: _fill_level(part, walker, level + 1) for key, part in template.items()}
        case list():
            return [_fill_level(part, walker, level + 1) for part in template]
    return template


def _render_whole(source: str, walker: Walker) -> JSON:
    template = parsed_template(source)
    walker.allow_text(copied=template.copies)
    if template.whole is None:
        return walker.text_from(template.body)
    return _present(template.whole, walker)


def _present(node: nodes.Node, walker: Walker) -> JSON:
    value = _value(node, walker)
    if isinstance(value, Undefined):
        value.refuse(node.lineno)
    return value


def _value(node: nodes.Node, walker: Walker) -> JSON:
    value = walker.value(node)
    if isinstance(value, (dict, list)) and not _is_read(node):
        walker.room_for_value(value)
    return value


def _is_read(node: nodes.Node) -> bool:
    """Return whether the value is a part of the names: then its size is not the expression's doing."""
    while isinstance(node, (nodes.Getattr, nodes.Getitem)):
        node = node.node
    return isinstance(node, nodes.Name)


def _place_errors(source: str, work: Callable[[], Any]) -> JSON:
    try:
        return work()
    except ExpressionError as error:
        error.expression = source
        raise
    except RecursionError:
        raise ExpressionError("nested too deeply", expression=source) from None


def _texts(template: object, level: int) -> list[str]:
    """Return the texts of a template that hold a mark, in order."""
    _check_level(level)
    match template:
        case str():
            return [] if is_plain(template) else [template]
        case dict():
            return [text for part in template.values() for text in _texts(part, level + 1)]
        case list():
            return [text for part in template for text in _texts(part, level + 1)]
    return []


def _check_level(level: int) -> None:
    if level > MAX_LEVELS:
        raise ExpressionError(f"a template is nested deeper than {MAX_LEVELS} levels")


Chain = tuple[str, ...]


def free_names(body: list[nodes.Node]) -> set[Chain]:
    """Return the names not set in the body itself, each with the keys that are read below it."""
    chains: set[Chain] = set()
    _visit_all(body, set(), chains)
    return chains


def _visit_all(body: list[nodes.Node], own: set[str], chains: set[Chain]) -> None:
    for node in body:
        _visit(node, own, chains)


def _visit(node: nodes.Node, own: set[str], chains: set[Chain]) -> None:
    match node:
        case nodes.If():
            _visit_if(node, own, chains)
        case nodes.For():
            _visit_for(node, own, chains)
        case nodes.Assign():
            _visit(node.node, own, chains)
            own |= _targets(node.target)
        case _:
            if chain := _read(node, own, chains):
                chains.add(chain)


def _read(node: nodes.Node, own: set[str], chains: set[Chain]) -> Chain:
    """Return the chain of names and keys that `node` is, or (); add all other chains it reads to `chains`."""
    match node:
        case nodes.Name():
            return () if node.name in own else (node.name,)
        case nodes.Getattr():
            base = _read(node.node, own, chains)
            return (*base, node.attr) if base else ()
        case nodes.Getitem(arg=nodes.Const(value=str(key))):
            base = _read(node.node, own, chains)
            return (*base, key) if base else ()
        case nodes.Call(node=nodes.Getattr(node=of)):
            _visit_all([of, *node.args], own, chains)
        case nodes.Call():
            _visit_all([*node.args], own, chains)
        case _:
            _visit_all([*node.iter_child_nodes()], own, chains)
    return ()


def _visit_if(node: nodes.If, own: set[str], chains: set[Chain]) -> None:
    """Visit an `if`; a name belongs to the template afterwards only if every branch sets it."""
    in_all: set[str] | None = None
    for branch in (node, *node.elif_):
        _visit(branch.test, own, chains)
        after = set(own)
        _visit_all(branch.body, after, chains)
        in_all = after if in_all is None else in_all & after
    after = set(own)
    _visit_all(node.else_, after, chains)
    own |= after if in_all is None else in_all & after


def _visit_for(node: nodes.For, own: set[str], chains: set[Chain]) -> None:
    _visit(node.iter, own, chains)
    inner = own | _targets(node.target)
    if node.test is not None:
        _visit(node.test, inner, chains)
    _visit_all(node.body, inner | {"loop"}, chains)
    _visit_all(node.else_, set(own), chains)


def _targets(target: nodes.Node) -> set[str]:
    return {name.name for name in [target, *target.find_all(nodes.Name)] if isinstance(name, nodes.Name)}
