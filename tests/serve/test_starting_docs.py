"""The examples of docs/starting.md over HTTP do what the page says, with curl and openssl against a real server."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tomllib

import pytest

from holdfast.runtime.config.sections import File
from holdfast.server.web.app import create_app
from holdfast.server.web.credentials import ALL_WEB_SCOPES
from holdfast.server.web.gate import Gate
from tests.conftest import Harness
from tests.repository import ROOT
from tests.serve.ground import blueprint_file, served, site_of_house

PAGE = (ROOT / "docs" / "starting.md").read_text()
SECRET = "whsec_" + "c2VjcmV0" * 6


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


@pytest.mark.skipif(not all(map(shutil.which, ("curl", "jq", "openssl"))), reason="needs curl, jq and openssl")
async def test_the_page_starts_runs_by_a_call_and_by_webhooks(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVOICES_SECRET", SECRET)
    monkeypatch.setenv("GITHUB_SECRET", "a-secret")
    blueprint_file(house.folder / "blueprints", "invoice.yaml", examples("yaml")[0])
    file = File.model_validate(tomllib.loads(examples("toml")[0]))
    site = site_of_house(house, serve=file.serve, hooks=file.hooks)
    gate = Gate.of(site.config)
    _, token = gate.tokens.create("user:bot", scopes=ALL_WEB_SCOPES, life=None, is_service=True)
    async with served(create_app(site, gate)) as address:
        script = "\n".join(["set -uo pipefail", *examples("bash")[1:], 'echo; echo "$RUN"'])
        environment = {**os.environ, "TOKEN": token}
        command = ["bash", "-c", script.replace("http://127.0.0.1:8090", address)]
        done = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    run = done.stdout.split()[-1]
    house.started.append(run)
    assert done.stdout.count(run) == 3, done.stdout
    assert await house.output(run) == 12
    [called] = re.findall(r"invoice-[0-9a-f]{16}", done.stdout)
    house.started.append(called)
    await house.runs.control.cancel(called)
