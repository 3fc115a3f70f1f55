"""Makes the pictures of the inbox in docs/pictures, taken by headless Chromium. `make picture`."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import uvicorn
from playwright.async_api import Browser, Page, async_playwright
from starlette.types import ASGIApp, Receive, Scope, Send
from temporalio.client import Client

from holdfast.blueprint.load import loads
from holdfast.client.answering import Answering, Sender
from holdfast.client.runs import Runs
from holdfast.protocol.questions import Question
from holdfast.runtime.config import Config
from holdfast.server.record.record import Record
from holdfast.server.record.store import open_store
from holdfast.server.web.app import create_app
from holdfast.server.web.gate import Identity
from holdfast.server.web.site import Site
from holdfast.worker import create_worker
from tests.serve.blueprints import BLUEPRINTS
from tests.server import SharedServer, connected

FOLDER = Path(__file__).parent / "pictures"
MOST_BYTES = 150_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
QUEUE = "pictures"
ANA = Identity(Sender("user:ana", proof="person"))
WIDE, PHONE = (1400, 900), (360, 740)
LISTED = ("text", "hold", "secret", "form", "review", "permit", "clarify", "decide")
"""The blueprints whose questions are in the list, the oldest first."""


@dataclass(frozen=True)
class Picture:
    """One picture: of which question (empty: the list), how large, in which colours."""

    name: str
    of: str = ""
    size: tuple[int, int] = WIDE
    scheme: Literal["light", "dark"] = "light"


PICTURES = (
    Picture("list"),
    Picture("list-dark", scheme="dark"),
    Picture("decision", "decide"),
    Picture("options", "clarify"),
    Picture("permission", "permit"),
    Picture("review", "review", scheme="dark"),
    Picture("form", "form", (800, 1000)),
    Picture("refused", "form", (800, 1000)),
    Picture("secret", "secret", (800, 700)),
    Picture("phone", size=PHONE),
    Picture("phone-dark", "permit", PHONE, "dark"),
    Picture("answered", "text"),
)


class OfAna:
    """The application, with Ana signed in."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "http":
            scope["identity"] = ANA
        await self.app(scope, receive, send)


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """Serve the application; its address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1))
        serving = asyncio.create_task(server.serve([listening]))
        try:
            yield "http://{}:{}".format(*listening.getsockname())
        finally:
            server.should_exit = True
            await serving


async def ask_all(runs: Runs, folder: Path) -> dict[str, Question]:
    """Start a run for each kind of question; the questions by the name of the blueprint."""
    questions = {}
    for name in LISTED:
        blueprint = loads(BLUEPRINTS[name], file=f"{name}.yaml", folder=folder, name=name)
        run = await runs.start(blueprint, run=f"{name}-1", started_by="user:cem")
        while not (open_ := await runs.questions(run)):
            await asyncio.sleep(0.05)
        questions[name] = open_[0]
    while len((await runs.lists.find_waiting())[0]) < len(LISTED):  # visibility knows them a moment later
        await asyncio.sleep(0.05)
    return questions


async def prepare(page: Page, picture: Picture) -> None:
    """Bring the page into the state that the picture shows."""
    match picture.name:
        case "decision" | "options":
            await page.locator(".option").first.click()
        case "refused":
            await page.locator("#main").get_by_label("Name of the guest").fill("Ms Sato")
            await page.locator("#main").get_by_label("nights").fill("many")
            await page.get_by_role("button", name="Send the answer").click()
        case "review":
            await page.get_by_text("Change it").click()
            await page.locator("#main").get_by_label("subject").fill("You are invited")
            await page.get_by_role("button", name="Show what changed").click()
            await page.locator(".diff").scroll_into_view_if_needed()
        case "answered":
            await page.locator("#main").get_by_label("Answer", exact=True).fill("Warm, and short.")
            await page.get_by_role("button", name="Send the answer").click()
            await page.get_by_role("heading", name="This question is closed").wait_for()


async def take(browser: Browser, address: str, questions: Mapping[str, Question], picture: Picture) -> None:
    """Take one picture."""
    width, height = picture.size
    context = await browser.new_context(
        base_url=address, viewport={"width": width, "height": height}, color_scheme=picture.scheme
    )
    page = await context.new_page()
    question = questions.get(picture.of)
    await page.goto(f"/questions/{question.run}/{question.id}" if question else "/")
    await prepare(page, picture)
    path = FOLDER / f"{picture.name}.png"
    await page.screenshot(path=path)
    await context.close()
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"{path.name} is larger than {MOST_BYTES:,} bytes")


async def take_all(client: Client, chromium: str, folder: Path) -> None:
    """Start the runs and the inbox, and take every picture."""
    groups = {"editors": ["user:ana"]}
    runs = Runs(client, QUEUE, Answering(groups=groups))
    record = Record(open_store(f"sqlite:{folder / 'record.sqlite'}"), client)
    app = create_app(Site(Config(home=folder, folder=folder, groups=groups), runs, record=record))
    FOLDER.mkdir(exist_ok=True)
    worker = create_worker(client, task_queue=QUEUE, activities=[])
    async with worker, served(OfAna(app)) as address, async_playwright() as playwright:
        questions = await ask_all(runs, folder)
        decision = questions["decide"]
        await record.comment(decision.run, decision.id, "Support is thin on Friday.", "user:bob")
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for picture in PICTURES:
            await take(browser, address, questions, picture)
        await browser.close()


async def main() -> None:
    """Take the pictures on a server of their own."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("no Chromium on the PATH; install it: apt-get install chromium")
    with tempfile.TemporaryDirectory() as name:
        shared = SharedServer(Path(name))
        try:
            await take_all(await connected(shared.join()), chromium, Path(name))
        finally:
            shared.leave()


if __name__ == "__main__":
    asyncio.run(main())
