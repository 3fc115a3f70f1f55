"""The examples of docs/api.md do what the page says, with curl against a real server."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess

import pytest

from holdfast.protocol.answers import REFUSALS
from holdfast.runtime.config.sections import ServeSection
from holdfast.server.web.api import CALLS
from holdfast.server.web.app import create_app
from holdfast.server.web.credentials import ALL_WEB_SCOPES
from holdfast.server.web.gate import Gate
from holdfast.server.web.problems import STATUS_OF_ERROR
from tests.conftest import Harness
from tests.repository import ROOT
from tests.serve.ground import blueprint_file, served, site_of_house

PAGE = (ROOT / "docs" / "api.md").read_text()


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq: install them")
async def test_the_examples_start_a_run_answer_it_and_show_its_result(house: Harness) -> None:
    blueprint_file(house.folder / "blueprints", "title.yaml", examples("yaml")[0])
    site = site_of_house(house, serve=ServeSection(blueprints=["blueprints"]))
    gate = Gate.of(site.config)
    _, token = gate.tokens.create("user:bot", scopes=ALL_WEB_SCOPES, life=None)
    async with served(create_app(site, gate)) as address:
        script = "set -euo pipefail\n" + "\n".join(examples("bash")) + '\necho "$RUN"'
        script = script.replace("http://127.0.0.1:8090", address)
        environment = {**os.environ, "TOKEN": token}
        command = ["bash", "-c", script]
        done = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, last, output, run = done.stdout.splitlines()
    house.started.append(run)
    assert (last, output) == ("run.completed", '"On tea"')


def test_every_call_and_every_code_is_on_the_page() -> None:
    last_parts = {call.path.rpartition("/")[2] for call in CALLS}
    assert [part for part in sorted(last_parts) if f"/{part}" not in PAGE] == []
    codes = {*REFUSALS, *(code for status, code in STATUS_OF_ERROR.values() if status < 500)}
    assert [code for code in sorted(codes) if f"`{code}`" not in PAGE] == []
