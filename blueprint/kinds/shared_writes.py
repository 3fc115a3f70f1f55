"""Writes of steps that run at once: two of them that write one path differently fail the step around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from holdfast.blueprint.findings import Findings, is_literal
from holdfast.blueprint.json_values import JSON, same
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.knowledge import Knowledge, ToolShapes
from holdfast.blueprint.kinds.needs import find_needs, has_needs
from holdfast.blueprint.kinds.walk import placed_within
from holdfast.blueprint.reducers import Path, find_reducers, is_below, split_keys
from holdfast.blueprint.shape import UNKNOWN, Shape, make_constant, make_object

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep


@dataclass(frozen=True)
class SharedWrite:
    """One path of the context that a step writes."""

    place: str
    """The path in the document of the key that says so."""
    path: Path
    constant: tuple[JSON, ...] = ()
    """The value, where it is written in the blueprint."""

    def clashes(self, other: SharedWrite) -> bool:
        """Return whether both write the same path, or one below the other, and not the same constant."""
        length = min(len(self.path), len(other.path))
        is_equal = bool(self.constant and other.constant) and same(self.constant[0], other.constant[0])
        return self.path[:length] == other.path[:length] and not is_equal


def find_writes(steps: Iterable[tuple[str, AnyStep]], blueprint: Blueprint) -> Iterator[SharedWrite]:
    """Yield what steps write, each given with its path in the document, as far as it is known before they run.

    What a reducer joins is left out.
    """
    reduced = find_reducers(blueprint.context_schema)
    for place, step in steps:
        writes = [*_find_updates(step, place, blueprint)] if step.updates_context else []
        if step.sink_to is not None:
            writes.append(SharedWrite(f"{place}.sink_to", split_keys(step.sink_to), _find_constant(step)))
        yield from (write for write in writes if not is_below(write.path, reduced))


def _find_updates(step: AnyStep, place: str, blueprint: Blueprint) -> Iterator[SharedWrite]:
    """Yield the keys that a step surely writes by `updates_context`; those of the scratchpad are merged."""
    if step.blocks():
        return
    given = step.input_template
    parts = (
        {key: make_constant(part) if is_literal(part) else UNKNOWN for key, part in given.items()}
        if isinstance(given, dict)
        else None
    )
    knowledge = Knowledge(
        UNKNOWN if parts is None else make_object(parts), blueprint, {}, _render_nothing, {}, ToolShapes()
    )
    output = step.output_shape(knowledge) if step.output_schema is None else Shape(step.output_schema)
    for key in sorted(output.required - {"scratchpad"}):
        values = (output.find_key(key) or UNKNOWN).values or ()
        yield SharedWrite(f"{place}.updates_context", (key,), values if len(values) == 1 else ())


def _render_nothing(*_: object) -> Shape:
    return UNKNOWN


def _find_constant(step: AnyStep) -> tuple[JSON, ...]:
    """Return the output of a step that only gives a value written in it."""
    gives = step.answered_question is None and not step.blocks() and not any(step.requires())
    return (step.input_template,) if gives and is_literal(step.input_template) else ()


def warn_of_branches(branches: Mapping[str, Sequence[SharedWrite]], findings: Findings) -> None:
    """Warn of branches, given by their names, that run at once and write one path."""
    for (name, ours), (other, theirs) in combinations(branches.items(), 2):
        if (clash := _find_clash(ours, theirs)) is not None:
            message = f"branches {name!r} and {other!r} both write {'.'.join(clash.path)}: two different values fail it"
            hint = "write different paths, or say merge_strategy: overwrite, keep_first or no_merge"
            findings.add(clash.place, "shared_write", message, hint)


def warn_of_list(steps: Sequence[AnyStep], path: str, blueprint: Blueprint, findings: Findings) -> None:
    """Warn of steps of a list that may run at once, as neither needs the other, and write one path."""
    if not has_needs(steps):
        return
    needs = find_needs(steps)
    writes = {
        step.name: list(find_writes(placed_within(step, f"{path}[{index}]"), blueprint))
        for index, step in enumerate(steps)
    }
    for one, other in combinations(writes, 2):
        if one in needs[other]:
            continue
        if (clash := _find_clash(writes[one], writes[other])) is not None:
            message = f"the steps {one} and {other} may run at once, and both write {'.'.join(clash.path)}"
            hint = "two different values fail the list: write different paths, or let one need the other"
            findings.add(clash.place, "shared_write", message, hint)


def _find_clash(ours: Iterable[SharedWrite], theirs: Sequence[SharedWrite]) -> SharedWrite | None:
    """Return the first write of theirs that one of ours clashes with."""
    return next((write for own in ours for write in theirs if own.clashes(write)), None)
