"""The names in a blueprint that a worker resolves: looked up for `validate`, `explain` and `graph`.

Temporal's client is imported only where a server is configured.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.blueprint.kinds import AgentTool
from holdfast.blueprint.load import Parsed
from holdfast.blueprint.requirements import requirements_of
from holdfast.cli.output import say
from holdfast.client.lookup import Checked, look_up_here
from holdfast.runtime.config import Config, ConfigError, load_config_for

_TOOLS = ("tool", "plan_tool")


async def read_demands(file: Path, parsed: Parsed) -> dict[str, AgentTool] | None:
    """Return what the owners of a blueprint's tools demand, by the tool's name; None if no worker can be asked."""
    assert parsed.blueprint is not None
    if not any(need.kind in _TOOLS for need in requirements_of(parsed.blueprint)):
        return {}
    try:
        checked = await look_up_in(load_config_for(file, say), parsed, on_server=is_server_named())
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


def is_server_named() -> bool:
    """Return whether the environment names a server. Raises `ConfigError` for Temporal's own configuration."""
    if not any(name.startswith("TEMPORAL_") for name in os.environ) and not any(map(Path.exists, _profiles())):
        return False
    from holdfast.runtime import connection  # noqa: PLC0415  see the head of this file

    return connection.is_server_named()


def _profiles() -> list[Path]:
    """Return where Temporal's SDK looks for its file of profiles, on Linux and on macOS."""
    homes = [Path("~/.config"), Path("~/Library/Application Support"), Path(os.environ.get("XDG_CONFIG_HOME") or "~")]
    return [home.expanduser() / "temporalio" / "temporal.toml" for home in homes]


async def _on_worker(config: Config, parsed: Parsed, connect: bool) -> Checked | None:
    """Look the names up on a worker of the configured server; return None if none was reached."""
    from holdfast.cli.session import quiet_core  # noqa: PLC0415  see the head of this file
    from holdfast.client.worker_lookup import look_up  # noqa: PLC0415  see the head of this file
    from holdfast.runtime import connection  # noqa: PLC0415  see the head of this file
    from holdfast.runtime.errors import ServerUnreachable  # noqa: PLC0415  see the head of this file

    quiet_core()
    assert parsed.blueprint is not None
    try:
        server = await connection.connect(config)
    except ServerUnreachable:
        return None
    checked = await look_up(server.client, server.task_queue, parsed.blueprint, parsed.problem, connect=connect)
    return None if checked.unchecked is not None else checked
