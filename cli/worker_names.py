"""The names in a blueprint that a worker resolves: looked up for `validate`, `explain` and `graph`."""

from __future__ import annotations

from pathlib import Path

from holdfast.blueprint.kinds import AgentTool
from holdfast.blueprint.load import Parsed
from holdfast.blueprint.requirements import requirements_of
from holdfast.cli.command import quiet_core
from holdfast.cli.output import say
from holdfast.client.lookup import Checked, look_up, look_up_here
from holdfast.runtime.config import Config, ConfigError, load_config_for
from holdfast.runtime.connection import connect as connected
from holdfast.runtime.connection import names_server
from holdfast.runtime.errors import ServerUnreachable

_TOOLS = ("tool", "plan_tool")


async def read_demands(file: Path, parsed: Parsed) -> dict[str, AgentTool] | None:
    """Return what the owners of a blueprint's tools demand, by the tool's name; None if no worker can be asked."""
    assert parsed.blueprint is not None
    if not any(need.kind in _TOOLS for need in requirements_of(parsed.blueprint)):
        return {}
    try:
        checked = await look_up_in(load_config_for(file, say), parsed, on_server=names_server())
    except ConfigError:  # `validate` tells what is wrong with it
        return None
    if checked.rules is None:
        return None
    return {
        name: AgentTool(name=name, approve=rule.approve, review=rule.review, risk=rule.risk)
        for name, rule in checked.rules.items()
    }


async def look_up_in(config: Config, parsed: Parsed, *, connect: bool = False, on_server: bool) -> Checked:
    """Look up the names in the blueprint on a worker, else on this machine. Raises `ConfigError`."""
    if parsed.blueprint is None or not requirements_of(parsed.blueprint):
        return Checked()
    by_worker = await _on_worker(config, parsed, connect) if on_server else None
    if by_worker is not None:
        return by_worker
    return await look_up_here(config.folder, config.worker.imports, parsed, connect=connect)


async def _on_worker(config: Config, parsed: Parsed, connect: bool) -> Checked | None:
    """Look the names up on a worker of the configured server; return None if none was reached."""
    quiet_core()
    assert parsed.blueprint is not None
    try:
        connection = await connected(config)
    except ServerUnreachable:
        return None
    checked = await look_up(connection.client, connection.task_queue, parsed.blueprint, parsed.problem, connect=connect)
    return None if checked.unchecked is not None else checked
