"""`python -m benchmarks.board [--agentdojo FOLDER] [--conformance FOLDER]`: run the suites, and print the board."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from benchmarks.board import agentdojo, mcp_conformance
from benchmarks.board.table import Row, print_table


def main() -> None:
    parser = argparse.ArgumentParser(description="Run other people's tests against Holdfast.")
    parser.add_argument("--agentdojo", type=Path, help="folder into which `agentdojo` was installed")
    parser.add_argument("--conformance", type=Path, help="folder into which npm installed the suite of MCP")
    parser.add_argument("--share", type=int, default=1, help="of AgentDojo's pairs run every SHARE-th only")
    given = parser.parse_args()
    rows: list[Row] = []
    if given.agentdojo is None:
        rows.append(Row("AgentDojo", "all", 0, "not run: no folder was given"))
    else:
        rows += asyncio.run(agentdojo.run_suites(given.agentdojo, given.share))
    if given.conformance is None:
        rows.append(Row("MCP conformance", "all", 0, "not run: no folder was given"))
    else:
        rows += asyncio.run(mcp_conformance.run_suite(given.conformance))
    print_table(rows)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit
