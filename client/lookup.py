"""The look-up of a blueprint's names before a run starts: what it asks for, what it finds, and one without a worker.

`worker_lookup` asks a running worker. Without one a process of its own imports the project's modules; `holdfast
validate` and `explain` use it, and load nothing of Temporal for it.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.blueprint.core import write_core
from holdfast.blueprint.errors import Problem
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds.knowledge import ToolShapes
from holdfast.blueprint.parts import Requirement
from holdfast.blueprint.positions import Parts, split_path
from holdfast.blueprint.shape import Shape
from holdfast.blueprint.shapes import judge
from holdfast.protocol.lookup import CODES, LookedUp, LookUp, RequiredName, ToolForm
from holdfast.protocol.tool_rules import OwnerRule
from holdfast.runtime.distribution import WORKER

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint

NO_KEY = "model_auth"
_OF_PACKAGES = ("tool", "tool_argument", "tool_input", "agent", "agent_tool")
"""Kinds of requirements that the listed packages meet."""
CONNECT_SECONDS = 90.0
"""Long, as the command of an MCP server may download it first."""

Placed = Callable[[Parts, str, str], Problem]
"""Makes a problem of a path, a code and a message."""


@dataclass(frozen=True)
class Checked:
    """The problems found by a look-up; `unchecked` says why none took place, or what it left out."""

    problems: list[Problem] = field(default_factory=list)
    unchecked: str | None = None
    rules: dict[str, OwnerRule] | None = None
    """By the name of a tool, what its owner demands; None if no tools were looked up."""
    forms: Mapping[str, ToolForm] = field(default_factory=dict)
    """By the name of a tool, what it takes and gives."""
    local: Sequence[str] = ()
    """The tools that are called in the workflow's own task."""

    @property
    def shapes(self) -> ToolShapes:
        results = {name: Shape(form.result) for name, form in self.forms.items() if form.result is not None}
        return ToolShapes({name: Shape(form.parameters) for name, form in self.forms.items()}, results)

    def judge(self, blueprint: Blueprint, placed: Placed) -> Checked:
        """Return the same with what is wrong in the blueprint by what its tools take and give.

        Args:
            blueprint: One without problems as long as its tools are not known.
            placed: Makes a problem of a path, a code and a message.
        """
        found = list(_judge(blueprint, self.shapes, placed, ())) if self.forms else []
        return replace(self, problems=[*self.problems, *found])


def make_request(requirements: Sequence[Requirement], *, connect: bool) -> LookUp:
    """Return the request for these names, each once."""
    return LookUp(wanted=list(dict.fromkeys(map(_make_required, requirements))), connect=connect)


def find_problems(result: LookedUp, requirements: Sequence[Requirement], placed: Placed) -> list[Problem]:
    """Return a problem for each place that names something missing."""
    missing = {entry.wanted: entry for entry in result.missing}
    pairs = [(need, missing[_make_required(need)]) for need in requirements if _make_required(need) in missing]
    return [placed(need.path, entry.code if entry.code in CODES else CODES[-1], entry.message) for need, entry in pairs]


def _make_required(requirement: Requirement) -> RequiredName:
    return RequiredName(
        kind=requirement.kind,
        name=requirement.name,
        idempotent=requirement.idempotent is True,
        about=requirement.about,
        among=requirement.among,
    )


def _judge(blueprint: Blueprint, tools: ToolShapes, placed: Placed, prefix: Parts) -> Iterator[Problem]:
    """Yield what is wrong in a blueprint and its imports by what tools take and give."""
    found = _PlacedFindings(write_core(blueprint), placed, prefix)
    judge(blueprint, found, tools)
    yield from found.problems
    for alias, inner in blueprint.imports.items():
        yield from _judge(inner, tools, placed, (*prefix, "imports", alias))


@dataclass
class _PlacedFindings:
    """Mistakes that become problems as `placed` makes them; warnings are told without the tools already."""

    tree: JSONObject
    placed: Placed
    prefix: Parts
    problems: list[Problem] = field(default_factory=list)

    def add(self, path: str, code: str, message: str, hint: str | None = None, *, at: str | None = None) -> None:
        text = f"{message} ({hint})" if hint else message
        self.problems.append(self.placed((*self.prefix, *split_path(self.tree, path)), code, text))

    def add_key(self, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.add(path, code, message, hint)

    def warn(self, path: str, code: str, message: str, hint: str, *, at: str | None = None) -> None: ...

    def warn_key(self, path: str, code: str, message: str, hint: str) -> None: ...


class Unchecked(Exception):
    """No look-up took place; the message says why."""


class Packages:
    """The modules of a folder that its worker imports: once for all blueprints that look names up in them.

    They are imported in a process of its own, because importing runs the author's code.

    Args:
        folder: That of the configuration.
        imports: The packages that it lists.
        connect: Whether to connect to MCP servers, to check their tools.
    """

    def __init__(self, folder: Path, imports: Sequence[str], *, connect: bool = False) -> None:
        self.imports = imports
        self._folder, self._connect = folder, connect
        self._wanted: list[Requirement] = []
        self._result: LookedUp | Unchecked | None = None

    def add(self, requirements: Sequence[Requirement]) -> None:
        """Add what a blueprint needs, before any is looked up."""
        self._wanted += self.select(requirements)

    def select(self, requirements: Sequence[Requirement]) -> list[Requirement]:
        """Return the requirements that can be looked up here: without imports none of tools."""
        return [need for need in requirements if self.imports or not _is_imported(need)]

    async def read(self) -> LookedUp:
        """Return what was found of all that was added. Raises `Unchecked`, each time."""
        if self._result is None:
            try:
                self._result = await _by_process(self._folder, make_request(self._wanted, connect=self._connect))
            except Unchecked as error:
                self._result = error
        if isinstance(self._result, Unchecked):
            raise self._result
        return self._result


async def look_up_here(packages: Packages, requirements: Sequence[Requirement], placed: Placed) -> Checked:
    """Look up names of a blueprint in packages, to which what it needs was added.

    Without imports no tools are looked up. A model's key that is not set here is only noted, not a problem: it may be
    set where the worker runs.
    """
    looked_up = packages.select(requirements)
    left_out = list(dict.fromkeys(need.name for need in requirements if need not in looked_up))
    notes = [f"{', '.join(left_out)}: no worker is reached, and [worker] imports names no package"] if left_out else []
    try:
        result = await packages.read() if looked_up else LookedUp()
    except Unchecked as error:
        return Checked(unchecked="; ".join([*notes, str(error)]))
    wanted = set(map(_make_required, looked_up))
    keys = [entry.message for entry in result.missing if entry.code == NO_KEY and entry.wanted in wanted]
    certain = LookedUp(missing=[entry for entry in result.missing if entry.code != NO_KEY])
    rules = result.rules if packages.imports else None
    problems, unchecked = find_problems(certain, looked_up, placed), "; ".join([*notes, *keys]) or None
    return Checked(problems, unchecked, rules, result.forms, result.local)


def _is_imported(requirement: Requirement) -> bool:
    return requirement.kind in _OF_PACKAGES and not requirement.name.startswith("mcp:")


async def _by_process(folder: Path, request: LookUp) -> LookedUp:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *WORKER, "--look-up"), cwd=folder, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            output, errors = await process.communicate(request.model_dump_json().encode())
    except TimeoutError:
        process.kill()
        raise Unchecked(f"[worker] imports took longer than {CONNECT_SECONDS:.0f} s") from None
    if process.returncode != 0:
        last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["it wrote nothing"]
        raise Unchecked(last[0])
    return LookedUp.model_validate_json(output)
