"""Who may do what through which door: each cell of the table in docs/security.md, tried."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import httpx
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from starlette.routing import Route

from holdfast.client.answering import Sender
from holdfast.protocol import guard
from holdfast.protocol.answers import Answer
from holdfast.protocol.questions import Question
from holdfast.runtime.config import PersonSection, ServeSection
from holdfast.runtime.config.sections import AccessTable
from holdfast.server.mcp.server import AssistantContext
from holdfast.server.record.record import Record
from holdfast.server.record.store import open_store
from holdfast.server.web.addresses import question_address, run_address
from holdfast.server.web.api import CALLS
from holdfast.server.web.api.routes import PREFIX, ApiCall
from holdfast.server.web.gate import Identity
from holdfast.server.web.pages import PAGES
from holdfast.server.web.sign_in import make_link_token
from holdfast.server.web.site import Site
from tests.answering import answer_by
from tests.conftest import Harness, until
from tests.record.ground import KEY
from tests.serve.ground import WHO, blueprint_file, client_of, site_of_house

Cell = Literal["yes", "refused", "unknown"]
PEOPLE = {
    "stranger": Identity(Sender("user:eve", proof="person")),
    "assignee": Identity(Sender("user:ana", proof="person")),
    "starter": Identity(Sender("user:sam", proof="person")),
    "reader": Identity(Sender("user:rita", proof="person")),
    "operator": Identity(Sender("user:olga", proof="person")),
    "administrator": Identity(Sender("user:adam", proof="person")),
}
GROUPS = {"heads": ["user:ana"], "audit": ["user:rita"], "ops": ["user:olga"], "admins": ["user:adam"]}
ACCESS = AccessTable(
    see=["group:audit"], start=["user:sam", "group:ops"], steer=["group:ops"], administer=["group:admins"]
)
SALARY = """
name: salary
steps:
  - {kind: loop, name: facts, loop: {max_loops: 1, body: [{name: note, input: '{{ iteration }}'}]}}
  - kind: hitl
    name: raise
    message: Raise the salary of Max?
    assignees: [group:heads]
    attachments: [{name: case.txt, type: text/plain, text: The case}]
"""
OTHER = "{name: other, steps: [{kind: hitl, name: ask, message: Which colour?}]}"


@dataclass
class Scene:
    """A run that waits for a question, and the person who comes to a door."""

    site: Site
    client: httpx.AsyncClient
    identity: Identity
    question: Question

    @property
    def api(self) -> str:
        return f"/api/v1/runs/{self.question.run}"

    @property
    def api_question(self) -> str:
        return f"/api/v1/questions/{self.question.id}"

    @property
    def page(self) -> str:
        return run_address(self.question.run)


Door = Callable[[Scene], Awaitable[Cell]]
READING: set[Door] = set()
"""Doors that change nothing: all people may come to the same run."""
WRITING_TOOLS = ("start", "answer")


def cell_of(status: int) -> Cell:
    """What a status says. What is allowed may meet something else that is wrong, such as no agent to tell."""
    assert status < 500, status
    return {403: "refused", 404: "unknown"}.get(status, "yes")  # type: ignore[return-value]


def got(path: Callable[[Scene], str]) -> Door:
    async def door(scene: Scene) -> Cell:
        async with scene.client.stream("GET", path(scene)) as response:
            return cell_of(response.status_code)

    READING.add(door)
    return door


def posted(path: Callable[[Scene], str], body: Callable[[Scene], Any] = lambda _: {}) -> Door:
    async def door(scene: Scene) -> Cell:
        how = "json" if path(scene).startswith("/api/") else "data"
        return cell_of((await scene.client.post(path(scene), **{how: body(scene)})).status_code)

    return door


def streamed(path: Callable[[Scene], str]) -> Door:
    """A stream, which ends with its run."""

    async def door(scene: Scene) -> Cell:
        await scene.site.runs.control.cancel(scene.question.run)
        return cell_of((await scene.client.get(path(scene))).status_code)

    return door


def listed(path: Callable[[Scene], str]) -> Door:
    """A list, a search or a count: what it shows of the run."""

    async def door(scene: Scene) -> Cell:
        text = (await scene.client.get(path(scene))).text
        return "yes" if scene.question.run in text else "unknown"

    READING.add(door)
    return door


def assisted(tool: str, arguments: Callable[[Scene], dict[str, Any]]) -> Door:
    async def door(scene: Scene) -> Cell:
        site = scene.site
        server = AssistantContext(site.config, site.runs, lambda ctx, scope: site.find_runs(scene.identity)).server()
        async with Client(server) as client:
            result = await client.call_tool(tool, arguments(scene))
        text = str(result.content)
        if result.is_error:
            return "unknown" if "no run" in text or "there is no blueprint" in text else "refused"
        return "yes" if tool in WRITING_TOOLS or scene.question.run in text else "unknown"

    if tool not in WRITING_TOOLS:
        READING.add(door)
    return door


async def resource(scene: Scene) -> Cell:
    site = scene.site
    server = AssistantContext(site.config, site.runs, lambda ctx, scope: site.find_runs(scene.identity)).server()
    async with Client(server) as client:
        try:
            await client.read_resource(f"holdfast://questions/{scene.question.id}")
        except MCPError as error:
            assert "no open question" in str(error)
            return "unknown"
    return "yes"


async def planned(scene: Scene) -> Cell:
    """The plan of a run; this one has none."""
    text = (await scene.client.get(f"{scene.api}/plan")).text
    return "yes" if "has no plan" in text else "unknown"


async def started(scene: Scene) -> Cell:
    response = await scene.client.post("/api/v1/runs", json={"blueprint": "other"})
    return (
        "yes" if response.status_code == 201 else "unknown" if "there is no blueprint" in response.text else "refused"
    )


async def event(scene: Scene) -> Cell:
    body = {"name": "paid", "key": "1", "id": "1", "run": scene.question.run}
    text = (await scene.client.post("/api/v1/events", json=body)).text
    return "unknown" if "no run" in text else "yes"  # nothing in the run waits for it


async def together(scene: Scene) -> Cell:
    """The page of selected questions; it says of those that cannot be shown only that they were asked for."""
    text = (await scene.client.get(f"/batch?q={scene.question.run}/{scene.question.id}")).text
    return "yes" if scene.question.message in text else "unknown"


async def linked(scene: Scene) -> Cell:
    token = make_link_token(scene.site, scene.identity.user, scene.question.run, scene.question.id)
    return cell_of((await scene.client.get(f"/l/{token}")).status_code)


async def offered(scene: Scene) -> Cell:
    """The buttons that steer: shown where they would not be refused."""
    response = await scene.client.get(scene.page)
    if response.status_code == 404:
        return "unknown"
    return "yes" if f"{scene.page}/cancel" in response.text else "refused"


async def form(scene: Scene) -> Cell:
    response = await scene.client.get(question_address(scene.question))
    if response.status_code == 404:
        return "unknown"
    return "yes" if 'id="answer"' in response.text else "refused"


def answers(scene: Scene) -> dict[str, Any]:
    return {"answers": [{"question": scene.question.id, "content": "yes"}]}


DOORS: Mapping[str, Door] = {
    "page of the run": got(lambda scene: scene.page),
    "page: graph": got(lambda scene: f"{scene.page}/graph"),
    "page: context": got(lambda scene: f"{scene.page}/context"),
    "page: iterations": got(lambda scene: f"{scene.page}/repetitions?at=pipeline:salary;loop:facts"),
    "page: what people did": got(lambda scene: f"{scene.page}/history"),
    "page of the question": got(lambda scene: question_address(scene.question)),
    "page: attachment": got(lambda scene: f"{question_address(scene.question)}/attachments/1"),
    "page: news of the question": got(lambda scene: f"{question_address(scene.question)}/part"),
    "list of questions": listed(lambda _: "/?for=all"),
    "search": listed(lambda _: "/?for=all&q=salary"),
    "several at once": together,
    "list of runs": listed(lambda _: "/runs"),
    "form to answer": form,
    "buttons to steer": offered,
    "page: comment": posted(lambda scene: f"{question_address(scene.question)}/comments", lambda _: {"text": "Well"}),
    "page: pause": posted(lambda scene: f"{scene.page}/pause"),
    "page: resume": posted(lambda scene: f"{scene.page}/resume"),
    "page: tell": posted(lambda scene: f"{scene.page}/tell", lambda _: {"text": "Hurry"}),
    "page: cancel": posted(lambda scene: f"{scene.page}/cancel"),
    "page: force": posted(lambda scene: f"{scene.page}/cancel", lambda _: {"force": "yes"}),
    "page: retry": posted(lambda scene: f"{scene.page}/retry"),
    "page: fork": posted(lambda scene: f"{scene.page}/fork", lambda _: {"at": "nowhere"}),
    "page: answer": posted(
        lambda scene: question_address(scene.question),
        lambda scene: {"do": "answer", "f:": "yes", "digest": scene.question.digest},
    ),
    "page: claim": posted(lambda scene: question_address(scene.question), lambda _: {"do": "claim"}),
    "page: start": posted(lambda _: "/start/other"),
    "API: questions": listed(lambda _: "/api/v1/questions"),
    "API: questions of the run": got(lambda scene: f"/api/v1/questions?run={scene.question.run}"),
    "API: question": got(lambda scene: scene.api_question),
    "API: attachment": got(lambda scene: f"{scene.api_question}/attachments/1"),
    "API: comments": got(lambda scene: f"{scene.api_question}/comments"),
    "API: comment": posted(lambda scene: f"{scene.api_question}/comment", lambda _: {"comment": "Well"}),
    "API: runs": listed(lambda _: "/api/v1/runs"),
    "API: run": got(lambda scene: scene.api),
    "API: result": got(lambda scene: f"{scene.api}/result"),
    "API: history": got(lambda scene: f"{scene.api}/history"),
    "API: plan": planned,
    "API: differences": got(lambda scene: f"{scene.api}/diff/{scene.question.run}"),
    "API: graph": got(lambda scene: f"{scene.api}/graph"),
    "API: events": streamed(lambda scene: f"{scene.api}/events"),
    "page: changes": streamed(lambda scene: f"{scene.page}/changes"),
    "API: answer": posted(lambda scene: f"{scene.api}/answers", answers),
    "API: claim": posted(lambda scene: f"{scene.api_question}/claim"),
    "API: delegate": posted(lambda scene: f"{scene.api_question}/delegate", lambda _: {"to": "user:bob"}),
    "API: reassign": posted(lambda scene: f"{scene.api_question}/reassign", lambda _: {"to": ["user:bob"]}),
    "API: pause": posted(lambda scene: f"{scene.api}/pause"),
    "API: resume": posted(lambda scene: f"{scene.api}/resume"),
    "API: tell": posted(lambda scene: f"{scene.api}/tell", lambda _: {"text": "Hurry"}),
    "API: edit": posted(lambda scene: f"{scene.api}/edit", lambda _: {"set": {"a": 1}, "digest": "x"}),
    "API: cancel": posted(lambda scene: f"{scene.api}/cancel"),
    "API: force": posted(lambda scene: f"{scene.api}/cancel", lambda _: {"force": True}),
    "API: retry": posted(lambda scene: f"{scene.api}/retry"),
    "API: fork": posted(lambda scene: f"{scene.api}/fork", lambda _: {"at": "nowhere"}),
    "API: event to the run": event,
    "API: start": started,
    "assistant: runs": assisted("runs", lambda _: {}),
    "assistant: questions": assisted("questions", lambda scene: {"run": scene.question.run}),
    "assistant: question": resource,
    "assistant: result": assisted("result", lambda scene: {"run": scene.question.run}),
    "assistant: answer": assisted(
        "answer", lambda scene: {"run": scene.question.run, "question": scene.question.id, "content": "yes"}
    ),
    "assistant: start": assisted("start", lambda _: {"blueprint": "other"}),
    "link in a message": linked,
    "metrics": got(lambda _: "/metrics"),
}


READING |= {together, form, offered, resource, planned, linked}


def written_table() -> dict[str, dict[str, str]]:
    """The table in the docs: the cell of each person, by door."""
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    lines = text[text.index("| | stranger") :].partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    table: dict[str, dict[str, str]] = {}
    for doors, *cells in rows[2:]:
        assert rows[0][1:] == list(PEOPLE)
        table |= {door.strip(): dict(zip(PEOPLE, cells, strict=True)) for door in re.split(r" · ", doors)}
    return table


TABLE = written_table()


@pytest.fixture
def site(house: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    blueprint_file(house.folder / "blueprints", "other.yaml", OTHER)
    serve = ServeSection(blueprints=["blueprints"])
    site = site_of_house(house, access=ACCESS, serve=serve, groups=GROUPS)
    monkeypatch.setattr(guard.DEPLOYMENT, "groups", GROUPS)
    store = open_store(f"sqlite:{tmp_path / 'record.sqlite'}")
    record = Record(store, house.client, KEY)
    yield replace(site, given_runs=site.runs.with_archive(record), record=record)
    store.close()


async def salary(house: Harness, site: Site) -> Question:
    """The question of a new run, once visibility lists it."""
    runs = site.find_runs(PEOPLE["starter"])
    run = await runs.start(house.load(SALARY))
    house.started.append(run)
    question = await house.one(run)

    async def is_listed() -> bool:
        return any(row.run == run for row in (await house.runs.lists.find_waiting())[0])

    await until(is_listed, "the question in the list")
    return question


def test_the_table_has_every_door() -> None:
    assert set(TABLE) == set(DOORS)
    assert {cell for cells in TABLE.values() for cell in cells.values()} == set(get_args(Cell))


async def try_door(site: Site, door: Door, questions: Mapping[str, Question]) -> dict[str, Cell]:
    """Have each person come to the door of a run, given by its question; what they find."""

    async def tried(name: str, identity: Identity) -> Cell:
        async with client_of(site, *PEOPLE.values()) as client:
            client.headers[WHO] = identity.user.removeprefix("user:")
            return await door(Scene(site, client, identity, questions[name]))

    cells = await asyncio.gather(*(tried(*person) for person in PEOPLE.items()))
    return dict(zip(PEOPLE, cells, strict=True))


@pytest.mark.slow
async def test_each_may_see_what_the_table_says(house: Harness, site: Site) -> None:
    questions = dict.fromkeys(PEOPLE, await salary(house, site))
    seen = {name: await try_door(site, door, questions) for name, door in DOORS.items() if door in READING}
    assert seen == {name: TABLE[name] for name in seen}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door not in READING])
async def test_each_may_do_what_the_table_says(house: Harness, site: Site, name: str) -> None:
    asked = await asyncio.gather(*(salary(house, site) for _ in PEOPLE))
    assert await try_door(site, DOORS[name], dict(zip(PEOPLE, asked, strict=True))) == TABLE[name]


# What an assignee sees

TWO = """
name: two
steps:
  - {kind: hitl, name: why, message: Why a raise?}
  - {kind: loop, name: reckoning, loop: {max_loops: 1, body: [{name: note, input: "{{ iteration }}"}]}}
  - {kind: hitl, name: raise, message: Raise the salary of Max?, assignees: [group:heads]}
"""


async def asked_of_heads(house: Harness, site: Site) -> Question:
    """The question of a run in which its starter has answered another one before."""
    runs = site.find_runs(PEOPLE["starter"])
    run = await runs.start(house.load(TWO))
    house.started.append(run)
    first = await house.one(run)
    await runs.answer(run, [Answer(question=first.id, content="He saved the day")])
    return await house.one(run)


@pytest.mark.slow
async def test_an_assignee_sees_what_people_answered_before_and_no_more_of_the_run(house: Harness, site: Site) -> None:
    question = await asked_of_heads(house, site)
    async with client_of(site, *PEOPLE.values()) as client:
        pages = {
            name: (await client.get(question_address(question), headers={WHO: name})).text for name in ("ana", "sam")
        }
    assert all("He saved the day" in page for page in pages.values())
    assert [run_address(question.run) + '"' in pages[name] for name in ("ana", "sam")] == [False, True]
    assert ["reckoning" in pages[name] for name in ("ana", "sam")] == [False, True]


@pytest.mark.slow
async def test_a_question_that_was_answered_goes_on_being_seen_by_those_who_were_asked(
    house: Harness, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = await salary(house, site)
    heads = {"heads": ["user:ana", "user:ben"]}
    answer_by(site.runs, replace(site.runs.answering, groups=heads))
    monkeypatch.setattr(guard.DEPLOYMENT, "groups", heads)
    async with client_of(site, *PEOPLE.values()) as client:
        address, body = f"/api/v1/runs/{question.run}/answers", {"answers": [{"question": question.id, "content": "y"}]}
        key = {"Idempotency-Key": "k1"}
        first = await client.post(address, json=body, headers={WHO: "ana", **key})
        again = await client.post(address, json=body, headers={WHO: "ana", **key})
        late = await client.post(address, json=body, headers={WHO: "ben"})
        stranger = await client.post(address, json=body, headers={WHO: "eve"})
        pages = [
            (await client.get(question_address(question), headers={WHO: who})).status_code
            for who in ("ana", "ben", "eve")
        ]
    assert (first.status_code, again.json()) == (200, first.json())
    assert (late.status_code, stranger.status_code) == (409, 404)
    assert "no run" in stranger.text and pages == [200, 200, 404]


@pytest.mark.slow
async def test_a_link_shows_deputies_what_is_asked_and_nothing_to_who_is_asked_no_more(
    house: Harness, site: Site
) -> None:
    question = await salary(house, site)
    people = {"ana": PersonSection(deputy="user:bob"), "bob": PersonSection(deputy="user:dan")}
    site = replace(site, config=site.config.model_copy(update={"people": people}))

    async def follow(who: str) -> tuple[int, int]:
        async with client_of(site) as client:
            client.headers[WHO] = "-"
            link = await client.get(f"/l/{make_link_token(site, f'user:{who}', question.run, question.id)}")
            return link.status_code, (await client.get(question_address(question))).status_code

    assert {who: await follow(who) for who in ("ana", "bob", "dan", "eve")} == {
        **dict.fromkeys(("ana", "bob", "dan"), (303, 200)),
        "eve": (404, 303),
    }
    await site.find_runs(PEOPLE["operator"]).assignment.reassign(question.run, question.id, ["user:eve"])
    assert {await follow(who) for who in ("ana", "bob", "dan")} == {(404, 303)}


def addresses() -> list[tuple[str, str, str]]:
    """Each method and address of the pages and the API that names a run or a question, and the body of its request."""
    pages = [route for route in PAGES if isinstance(route, Route)]
    called = [(call.method, PREFIX + call.path, body_of(call)) for call in CALLS]
    every = [*called, *((method, route.path, "text=x") for route in pages for method in sorted(route.methods or ()))]
    return [place for place in every if "{run}" in place[1] or "{id}" in place[1]]


def body_of(call: ApiCall) -> str:
    """A body that a call takes."""
    required = [name for name, field in (call.body.model_fields if call.body else {}).items() if field.is_required()]
    samples: dict[str, Any] = {"answers": [{"question": "ID"}], "set": {"a": 1}}
    body = {name: samples.get(name, "user:bob") for name in required}
    return json.dumps({**body, "to": ["user:bob"]} if call.name == "reassign_question" else body)


@pytest.mark.slow
async def test_what_one_may_not_see_is_answered_as_what_there_is_not(house: Harness, site: Site) -> None:
    """Also at an address that is added later, which the table does not know yet."""
    question, found = await salary(house, site), addresses()

    async def say(client: httpx.AsyncClient, method: str, path: str, body: str, run: str, id_: str) -> tuple[int, str]:
        address = path.replace("{run}", run).replace("{id}", id_).replace("{n:int}", "1").replace("{n}", "1")
        kind = "application/json" if path.startswith(PREFIX) else "application/x-www-form-urlencoded"
        headers = {} if method in ("GET", "HEAD") else {"Content-Type": kind}
        content = body.replace("ID", id_) if headers else None
        response = await client.request(method, address, content=content, headers=headers)
        text = re.sub('data-now="[^"]*"', "", response.text)
        return response.status_code, text.replace(run, "RUN").replace(id_, "ID")

    async with client_of(site, *PEOPLE.values()) as client:
        client.headers[WHO] = "eve"
        hidden = {place[:2]: await say(client, *place, question.run, question.id) for place in found}
        missing = {place[:2]: await say(client, *place, "salary-00000000", "0" * 16) for place in found}
    assert len(found) > 30 and {place: status for place, (status, _) in hidden.items() if status != 404} == {}
    assert hidden == missing
