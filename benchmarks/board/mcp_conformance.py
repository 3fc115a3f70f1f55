"""The conformance suite of the Model Context Protocol: our server by its server scenarios, our client by its client's.

Of the server's scenarios most need tools of the suite's own sample server, or parts of the protocol that ours does not
offer; they are counted apart, by what the suite reports. Of the client's, those of OAuth and of forms are not run: a
worker sends the headers that its configuration names, and forms go to people.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse

from benchmarks.board.table import Row
from benchmarks.ground import server
from tests.crash.machines import find_free_port, wait_for_port

PACKAGE = Path("node_modules/@modelcontextprotocol/conformance")
CLIENT_SCENARIOS = ("initialize", "tools_call", "sse-retry")
FOREIGN = ("there is no tool 'test_", "there is no test://")
"""What our server says where a scenario is about the suite's own sample server."""
UNOFFERED = "Method not found"
SECONDS = 300


async def run_suite(folder: Path) -> list[Row]:
    """Run the suite that npm has installed in a folder, with Node as `node_modules/.bin/node` or on the path."""
    version = json.loads((folder / PACKAGE / "package.json").read_text())["version"]
    name = f"MCP conformance {version}"
    with TemporaryDirectory() as reports:
        async with assistants_server() as url:
            await _run(folder, ["server", "--url", url, "-o", f"{reports}/server"])
        command = f"{sys.executable} -m benchmarks.board.mcp_client"
        for scenario in CLIENT_SCENARIOS:
            what = ["client", "--command", command, "--scenario", scenario, "-o", f"{reports}/client"]
            await _run(folder, what)
        server_row = Row(name, "server scenarios", *_describe(Path(reports, "server")))
        return [server_row, Row(name, "client scenarios", *_describe(Path(reports, "client")))]


async def _run(folder: Path, what: Sequence[str]) -> None:
    node = folder / "node_modules/.bin/node"
    program = str(node) if node.exists() else "node"
    process = await asyncio.create_subprocess_exec(
        program, folder / PACKAGE / "dist/index.js", *what, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    async with asyncio.timeout(SECONDS):
        await process.wait()  # its exit code is 1 where anything has failed: the reports say what


def _describe(reports: Path) -> tuple[int, str]:
    """Return the number of scenarios, and what came of them."""
    passed, foreign, unoffered, failed = [], [], [], []
    for report in sorted(reports.rglob("checks.json")):
        scenario = report.parent.name.partition("-2")[0].removeprefix("server-")
        errors = [check.get("errorMessage") or check["id"] for check in _read_failures(report)]
        if not errors:
            passed.append(scenario)
        elif any(word in error for error in errors for word in FOREIGN):
            foreign.append(scenario)
        elif any(UNOFFERED in error for error in errors):
            unoffered.append(scenario)
        else:
            failed.append(f"{scenario} ({errors[0]})")
    parts = [f"passed: {', '.join(passed)}"]
    parts += [f"{len(foreign)} are about the suite's sample server"] if foreign else []
    parts += [f"not offered: {', '.join(unoffered)}"] if unoffered else []
    parts += [f"FAILED: {', '.join(failed)}"] if failed else []
    return len(passed) + len(foreign) + len(unoffered) + len(failed), "; ".join(parts)


def _read_failures(report: Path) -> list[dict[str, str]]:
    return [check for check in json.loads(report.read_text()) if check["status"] in ("FAILURE", "WARNING")]


@asynccontextmanager
async def assistants_server() -> AsyncIterator[str]:
    """Run `holdfast mcp --http`, and give an address at which each request gets a token: the suite sends none."""
    async with server() as client:
        environment = {**os.environ, "TEMPORAL_ADDRESS": client.service_client.config.target_host}
        holdfast = [sys.executable, "-m", "holdfast.cli"]
        scopes = ["--scope", "read", "--scope", "answer", "--scope", "steer"]
        create = [*holdfast, "token", "create", "--user", "ana", *scopes]
        token = subprocess.run(create, env=environment, capture_output=True, text=True, check=True).stdout.split()[0]
        port, front = find_free_port(), find_free_port()
        with subprocess.Popen([*holdfast, "mcp", "--http", str(port)], env=environment) as process:
            proxy = uvicorn.Server(uvicorn.Config(_add_token(port, token), port=front, log_level="warning"))
            serving = asyncio.create_task(proxy.serve())
            try:
                await wait_for_port(port)
                yield f"http://127.0.0.1:{front}/mcp"
            finally:
                proxy.should_exit = True
                await serving
                process.terminate()


def _add_token(port: int, token: str) -> Starlette:
    http = httpx2.AsyncClient(timeout=60)

    async def forward(request: Request) -> StreamingResponse:
        headers = {**request.headers, "authorization": f"Bearer {token}"}
        url = f"http://127.0.0.1:{port}{request.url.path}"
        sent = http.build_request(request.method, url, headers=headers, content=await request.body())
        reply = await http.send(sent, stream=True)
        kept = {
            key: value for key, value in reply.headers.items() if key not in ("content-length", "transfer-encoding")
        }
        return StreamingResponse(reply.aiter_raw(), reply.status_code, kept)

    app = Starlette()
    app.add_route("/mcp", forward, methods=["GET", "POST", "DELETE"])
    return app
