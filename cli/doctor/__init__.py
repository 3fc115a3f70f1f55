"""`holdfast doctor`: what is wrong with a deployment, each finding with the way to mend it.

`examine` makes every check that can be made: what cannot be reached leaves out what depends on it, and says so.
"""

from __future__ import annotations

import sys

import typer
from rich.text import Text
from temporalio.service import RPCError

from holdfast.cli.command import perform
from holdfast.cli.doctor.access import check_open_runs, check_rules
from holdfast.cli.doctor.findings import Finding, Status
from holdfast.cli.doctor.machine import check_machine
from holdfast.cli.doctor.runs import check_runs
from holdfast.cli.doctor.server import Deployment, check_server, make_stall_fault, reach
from holdfast.cli.doctor.worker import check_workers
from holdfast.cli.flags import AsJson
from holdfast.cli.output import DONE, FAILED, print_json
from holdfast.cli.session import quiet_core
from holdfast.cli.tables import console
from holdfast.client.archive import is_record_installed
from holdfast.runtime.config import Config, load_config
from holdfast.runtime.connection import is_server_named
from holdfast.runtime.errors import SILENT_STATUSES

__all__ = ["Deployment", "Finding", "Status", "app", "examine"]

app = typer.Typer(rich_markup_mode=None)

STYLES = {"ok": "green", "warning": "yellow", "fault": "bold red", "unchecked": "dim"}


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check this machine, the server, its workers and the record, and say how to fix what is wrong.

    Exit code 0 if nothing is wrong, else 1. Warnings do not count. Nothing is started.
    """
    perform(_doctor(as_json), as_json)


async def examine(config: Config) -> list[Finding]:
    """Return what was found, in the order in which things depend on each other: this machine, server, worker,
    runs, record.

    Nothing is started and nothing is changed, but for values of a moment: a standalone activity, a value in the cache,
    and a secret that is removed again. Raises `ConfigError` for Temporal's own configuration.
    """
    findings = [*check_machine(config, is_shared=is_server_named()), *_check_hooks(config), check_rules(config)]
    if any(finding.check == "encryption" and finding.status == "fault" for finding in findings):
        return [*findings, Finding("server", "unchecked", "a client needs every key of [encryption] to connect")]
    deployment, reached = await reach(config)
    findings += reached
    if deployment is None:
        return findings
    findings += await check_server(deployment)
    is_set_up = not any(finding.check == "search_attributes" and finding.status != "ok" for finding in findings)
    for check in (*([check_open_runs] if is_set_up else []), check_workers, check_runs, _check_record):
        try:
            findings += await check(deployment)
        except RPCError as error:
            if error.status not in SILENT_STATUSES:
                raise
            return [*findings, make_stall_fault(error)]
    return findings


def _check_hooks(config: Config) -> list[Finding]:
    if not config.hooks:
        return []
    if not is_record_installed():
        return [Finding("hooks", "unchecked", "receiving them needs more: pip install 'holdfast[serve]'")]
    from holdfast.cli.doctor.hooks import check_hooks  # noqa: PLC0415  it needs the extra `serve`

    return check_hooks(config)


async def _check_record(deployment: Deployment) -> list[Finding]:
    if not is_record_installed():
        return [Finding("record", "unchecked", "reading it needs more: pip install 'holdfast[serve]'")]
    from holdfast.cli.doctor.record import check_record  # noqa: PLC0415  it needs the extra `serve`

    return await check_record(deployment)


async def _doctor(as_json: bool) -> int:
    quiet_core()
    findings = await examine(load_config())
    faults = sum(finding.status == "fault" for finding in findings)
    if as_json:
        print_json({"faults": faults, "findings": [finding.to_json() for finding in findings]})
    else:
        for finding in findings:
            _print(finding)
    return FAILED if faults else DONE


def _print(finding: Finding) -> None:
    out = console(sys.stdout)
    head = Text.assemble((f"{finding.status:<9}", STYLES[finding.status]), f" {finding.check}: {finding.message}")
    out.print(head, soft_wrap=True)
    if finding.remedy is not None:
        out.print(Text(f"{'':9} → {finding.remedy}"), soft_wrap=True)
