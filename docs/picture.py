"""Makes docs/waiting.png: a waiting loop on its page in Temporal's UI, taken by headless Chromium. `make picture`."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from temporalio.client import Client

from holdfast import load
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer
from holdfast.runtime.connection import connect

HOME = Path(__file__).parent.parent
PICTURE = HOME / "docs" / "waiting.png"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1400,1050",
]
QUESTION = "How long may it be"
PATIENCE_SECONDS = 60


async def wait_in_iteration_two(client: Client, runs: Runs) -> str:
    """A run that has been answered once and asks again; the address of its loop's page, below the UI's."""
    run = await runs.start(
        load(HOME / "examples" / "write_brief" / "write_brief.yaml"), "A poem for the office party", run="poem-1"
    )
    for answer in ("my team", None):
        while not (questions := await _asked(runs, run)):
            await asyncio.sleep(0.1)
        if answer is not None:
            await runs.answer(run, [Answer(question=questions[0].id, content=answer)], by="user:ana")
            while [one.id for one in await _asked(runs, run)] in ([], [questions[0].id]):
                await asyncio.sleep(0.1)
    loop = questions[0].owner
    described = await client.get_workflow_handle(loop).describe()
    name = loop.replace("/", "%2F").replace(":", "%3A")
    return f"namespaces/{client.namespace}/workflows/{name}/{described.run_id}"


async def _asked(runs: Runs, run: str) -> list:
    try:
        return await runs.questions(run)
    except RuntimeError:  # the worker is still on its way
        return []


class Browser:
    """Headless Chromium, driven through chromedriver's HTTP interface."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"
        options = {"goog:chromeOptions": {"args": FLAGS}}
        started = self._call("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self._session = f"/session/{started['sessionId']}"

    def _call(self, method: str, path: str, body: dict | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, address: str) -> None:
        self._call("POST", f"{self._session}/url", {"url": address})

    def shows(self, text: str) -> bool:
        """Whether one of the page's frames shows the text: the UI puts Markdown into frames of its own."""
        script = {"script": "return document.querySelectorAll('iframe').length", "args": []}
        frames = self._call("POST", f"{self._session}/execute/sync", script)
        return any(text in self._text_of(frame) for frame in range(frames))

    def _text_of(self, frame: int) -> str:
        script = {"script": "return document.body ? document.body.innerText : ''", "args": []}
        try:
            self._call("POST", f"{self._session}/frame", {"id": frame})
            return str(self._call("POST", f"{self._session}/execute/sync", script))
        except OSError:  # the page has put another frame in its place
            return ""
        finally:
            self._call("POST", f"{self._session}/frame", {"id": None})

    def picture(self) -> bytes:
        return base64.b64decode(self._call("GET", f"{self._session}/screenshot"))

    def close(self) -> None:
        self._call("DELETE", self._session)


def take(address: str) -> None:
    """The page, once it shows the question."""
    port = 29515
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL)
    try:
        until(lambda: _answers(port), "chromedriver")
        browser = Browser(port)
        browser.open(address)
        until(lambda: browser.shows(QUESTION), "the question on the page")
        PICTURE.write_bytes(browser.picture())
        browser.close()
    finally:
        driver.terminate()


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=2)
    except OSError:
        return False
    return True


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"waited for {what}")
        time.sleep(0.2)


async def main(page: str) -> int:
    if shutil.which("chromedriver") is None:
        print("no chromedriver here; on Debian: apt-get install chromium-driver", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["HOLDFAST_HOME"] = folder
        connection = await connect()
        path = await wait_in_iteration_two(connection.client, Runs(connection.client, connection.task_queue))
        await asyncio.to_thread(take, f"{connection.ui_url}/{path}{page}")
        subprocess.run([sys.executable, "-m", "holdfast", "down"], check=True, cwd=HOME)
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1024} kB")
    return 0


if __name__ == "__main__":
    code = asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "/user-metadata"))
    sys.stdout.flush()
    os._exit(code)  # the SDK sometimes aborts at the interpreter's exit
