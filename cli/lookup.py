"""The names in a blueprint that a worker resolves: looked up for `validate`, `explain` and `graph`.

Temporal's client is imported only where a server is configured.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from holdfast.blueprint.kinds import AgentTool
from holdfast.blueprint.kinds.knowledge import ToolShapes
from holdfast.blueprint.parts import Requirement
from holdfast.blueprint.requirements import list_requirements
from holdfast.blueprint.shapes import NO_TOOLS
from holdfast.cli.output import say
from holdfast.client.lookup import Checked, Packages, look_up_here
from holdfast.runtime.config import Config, ConfigError, load_config_for

if TYPE_CHECKING:
    from holdfast.blueprint.load import Parsed


class ToolFacts(NamedTuple):
    """What only a worker knows of a blueprint's tools."""

    demands: dict[str, AgentTool]
    """What their owners demand, by the tool's name."""
    local: Sequence[str]
    """Those that are called in the workflow's own task."""
    shapes: ToolShapes = NO_TOOLS


async def read_tool_facts(file: Path, parsed: Parsed) -> ToolFacts | None:
    """Return what a worker says of a blueprint's tools; None if none can be asked."""
    assert parsed.blueprint is not None
    tools = [need for need in list_requirements(parsed.blueprint) if need.kind == "tool"]
    if not tools:
        return ToolFacts({}, ())
    try:
        config, on_server = load_config_for(file, say), is_server_named()
        if not (on_server or config.worker.imports):
            return None
        checked = await look_up_in(config, parsed, tools, on_server=on_server)
    except ConfigError:  # `validate` tells what is wrong with it
        return None
    if checked.rules is None:
        return None
    demands = {
        name: AgentTool(name=name, approve=rule.approve, review=rule.review, risk=rule.risk)
        for name, rule in checked.rules.items()
    }
    twice = {need.name for need in tools if need.idempotent is not False}
    return ToolFacts(demands, [name for name in checked.local if name in twice], checked.shapes)


async def look_up_in(
    config: Config,
    parsed: Parsed,
    names: Sequence[Requirement],
    *,
    connect: bool = False,
    on_server: bool,
    packages: Packages | None = None,
) -> Checked:
    """Look up names of the blueprint on a worker, else on this machine. Raises `ConfigError`.

    Args:
        packages: Those of the configuration, with the names, where several blueprints are looked up in them.
    """
    if not names:
        return Checked()
    by_worker = await _on_worker(config, parsed, names, connect) if on_server else None
    if by_worker is not None:
        return by_worker
    if packages is None:
        packages = Packages(config.folder, config.worker.imports, connect=connect)
        packages.add(names)
    return await look_up_here(packages, names, parsed.problem)


def is_server_named() -> bool:
    """Return whether the environment names a server. Raises `ConfigError` for Temporal's own configuration."""
    profiles = Path(typer.get_app_dir("temporalio"), "temporal.toml")  # the SDK's place for them
    if not any(name.startswith("TEMPORAL_") for name in os.environ) and not profiles.exists():
        return False
    from holdfast.runtime import connection  # noqa: PLC0415  see the head of this file

    return connection.is_server_named()


async def _on_worker(config: Config, parsed: Parsed, names: Sequence[Requirement], connect: bool) -> Checked | None:
    """Look the names up on a worker of the configured server; return None if none was reached."""
    from holdfast.cli.session import quiet_core  # noqa: PLC0415  see the head of this file
    from holdfast.client.worker_lookup import look_up  # noqa: PLC0415  see the head of this file
    from holdfast.runtime import connection  # noqa: PLC0415  see the head of this file
    from holdfast.runtime.errors import ServerUnreachable  # noqa: PLC0415  see the head of this file

    quiet_core()
    try:
        server = await connection.connect(config)
    except ServerUnreachable:
        return None
    checked = await look_up(server.client, server.task_queue, names, parsed.problem, connect=connect)
    return None if checked.unchecked is not None else checked
