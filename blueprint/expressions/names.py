"""The names that an expression or template reads."""

from jinja2 import nodes

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
