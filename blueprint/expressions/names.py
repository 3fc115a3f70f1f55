"""Which names an expression or template reads."""

from jinja2 import nodes

Chain = tuple[str, ...]


def free_names(body: list[nodes.Node]) -> set[Chain]:
    """The names not set in the body itself, each with the keys that are read below it."""
    found: set[Chain] = set()
    _visit_all(body, set(), found)
    return found


def _visit_all(body: list[nodes.Node], own: set[str], found: set[Chain]) -> None:
    for node in body:
        _visit(node, own, found)


def _visit(node: nodes.Node, own: set[str], found: set[Chain]) -> None:
    match node:
        case nodes.If():
            _visit_if(node, own, found)
        case nodes.For():
            _visit_for(node, own, found)
        case nodes.Assign():
            _visit(node.node, own, found)
            own |= _targets(node.target)
        case _:
            if chain := _read(node, own, found):
                found.add(chain)


def _read(node: nodes.Node, own: set[str], found: set[Chain]) -> Chain:
    """The chain that `node` is, if it is one and goes on; all else that is read goes to `found`."""
    match node:
        case nodes.Name():
            return () if node.name in own else (node.name,)
        case nodes.Getattr():
            base = _read(node.node, own, found)
            return (*base, node.attr) if base else ()
        case nodes.Getitem(arg=nodes.Const(value=str(key))):
            base = _read(node.node, own, found)
            return (*base, key) if base else ()
        case nodes.Call(node=nodes.Getattr(node=of)):
            _visit_all([of, *node.args], own, found)
        case nodes.Call():
            _visit_all([*node.args], own, found)
        case _:
            _visit_all([*node.iter_child_nodes()], own, found)
    return ()


def _visit_if(node: nodes.If, own: set[str], found: set[Chain]) -> None:
    """A name is the template's own afterwards if every branch sets it."""
    in_all: set[str] | None = None
    for branch in (node, *node.elif_):
        _visit(branch.test, own, found)
        after = set(own)
        _visit_all(branch.body, after, found)
        in_all = after if in_all is None else in_all & after
    after = set(own)
    _visit_all(node.else_, after, found)
    own |= after if in_all is None else in_all & after


def _visit_for(node: nodes.For, own: set[str], found: set[Chain]) -> None:
    _visit(node.iter, own, found)
    inner = own | _targets(node.target)
    if node.test is not None:
        _visit(node.test, inner, found)
    _visit_all(node.body, inner | {"loop"}, found)
    _visit_all(node.else_, set(own), found)


def _targets(target: nodes.Node) -> set[str]:
    return {name.name for name in [target, *target.find_all(nodes.Name)] if isinstance(name, nodes.Name)}
