"""The command `doctor`."""

from __future__ import annotations

import sys

import typer
from rich.text import Text

from holdfast.cli.command import perform
from holdfast.cli.doctor import Finding, examine
from holdfast.cli.flags import AsJson
from holdfast.cli.output import DONE, FAILED, print_json
from holdfast.cli.render import console
from holdfast.runtime.config import load_config

app = typer.Typer(rich_markup_mode=None)

STYLES = {"ok": "green", "warning": "yellow", "fault": "bold red", "unchecked": "dim"}


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check this machine, the server, its workers and the record, and say how to fix what is wrong.

    Exit code 0 if nothing is wrong, else 1. Warnings do not count. Nothing is started.
    """
    perform(_doctor(as_json), as_json)


async def _doctor(as_json: bool) -> int:
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
