"""Webhooks that start runs and bring events, and events over the API."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from holdfast.client.answering import Sender
from holdfast.runtime.config import Config, ConfigError, HookSection, ServeSection
from holdfast.server.notices.transports import sign_webhook
from holdfast.server.web.gate import Identity
from holdfast.server.web.hooks import load_hooks, look_up_hooks
from tests.conftest import Harness, until
from tests.serve.ground import WHO, client_of, person, site_of_house

SECRET = base64.b64encode(b"s" * 32).decode()
INVOICE = """
name: invoice
inputs: {type: object, required: [number], properties: {number: {type: string}}}
steps:
  - {kind: wait, name: paid, for: payment.received, key: "{{ input.number }}"}
output: {payload: "{{ steps.paid.output }}", id: "{{ steps.paid.reply.event.id }}"}
"""
SHIPPED: dict[str, Any] = {
    "signature": "hmac-sha256",
    "signature_header": "X-Hub-Signature-256",
    "id": "{{ headers['x-github-delivery'] }}",
    "secret_env": "GITHUB_SECRET",
}
HOOKS = {
    "invoices": HookSection(blueprint="invoice", input={"number": "{{ body.no }}"}, secret_env="HOOK_SECRET"),
    "payments": HookSection(event="payment.received", key="{{ body.no }}", secret_env="HOOK_SECRET"),
    "pushes": HookSection(blueprint="invoice", input={"number": "{{ body.no }}"}, **SHIPPED),
}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("GITHUB_SECRET", "it is a secret".replace(" ", "-"))


@pytest_asyncio.fixture
async def api(house: Harness) -> AsyncIterator[httpx.AsyncClient]:
    (house.folder / "invoice.yaml").write_text(INVOICE)
    site = site_of_house(house, serve=ServeSection(blueprints=["."]), hooks=HOOKS)
    service = Identity(Sender("user:billing", proof="service"), frozenset(("read", "answer")), is_service=True)
    async with client_of(site, service, person("reader", "read")) as client:
        yield client


async def post(
    api: httpx.AsyncClient, name: str, body: object, id_: str = "msg-1", *, at: float = 0, secret: bytes = b"s" * 32
) -> httpx.Response:
    data = json.dumps(body).encode()
    headers = sign_webhook([secret], id_, int(time.time() + at), data)
    return await api.post(f"/hooks/{name}", content=data, headers={WHO: "-", **headers})


async def waits(house: Harness, run: str, number: str) -> None:
    house.started.append(run)

    async def listed() -> bool:
        return run in await house.runs.external_events.find_runs("payment.received", number)

    await until(listed, "visibility")


async def test_a_webhook_starts_a_run_once_and_another_brings_the_event(house: Harness, api: httpx.AsyncClient) -> None:
    number = house.unique
    first, again = [await post(api, "invoices", {"no": number}, f"msg-{number}") for _ in range(2)]
    assert (first.status_code, again.status_code, again.json()) == (201, 200, first.json())
    run = first.json()["run"]
    await waits(house, run, number)
    paid = [await post(api, "payments", {"no": number, "amount": 3}) for _ in range(2)]
    assert [(one.status_code, one.json()) for one in paid] == [(200, paid[0].json())] * 2
    assert (paid[0].json()[0]["run"], paid[0].json()[0]["status"]) == (run, "taken")
    output = await house.output(run)
    assert (output["payload"], output["id"]) == ({"no": number, "amount": 3}, "payments:msg-1")


async def test_another_body_under_the_id_of_a_webhook_is_a_conflict(house: Harness, api: httpx.AsyncClient) -> None:
    id_ = f"msg-{house.unique}"
    run = (await post(api, "invoices", {"no": "1"}, id_)).json()["run"]
    other = await post(api, "invoices", {"no": "2"}, id_)
    assert (other.status_code, other.json()["code"]) == (409, "key_conflict")
    await house.runs.control.cancel(run)


async def test_a_webhook_of_github_starts_a_run(house: Harness, api: httpx.AsyncClient) -> None:
    data = json.dumps({"no": "7"}).encode()
    signature = "sha256=" + hmac.new(b"it-is-a-secret", data, "sha256").hexdigest()
    headers = {WHO: "-", "X-Hub-Signature-256": signature, "X-GitHub-Delivery": house.unique}
    answers = [await api.post("/hooks/pushes", content=data, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    forged = await api.post("/hooks/pushes", content=data + b" ", headers=headers)
    assert forged.status_code == 401
    await house.runs.control.cancel(answers[0].json()["run"])


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("how", "code", "why"),
    [
        ({"secret": b"x" * 32}, 401, "was not made with the secret"),
        ({"at": -301}, 401, "300 s off"),
        ({"at": 301}, 401, "300 s off"),
        ({"name": "nothing"}, 404, "there is no hook 'nothing'"),
        ({"body": {"number": 1}}, 422, "hooks.invoices.input"),
        ({"body": {"no": 1}}, 422, "number"),
    ],
)
async def test_what_cannot_be_taken_is_refused_with_the_reason(
    api: httpx.AsyncClient, how: dict[str, Any], code: int, why: str
) -> None:
    name, body = how.pop("name", "invoices"), how.pop("body", {"no": "1"})
    refused = await post(api, name, body, **how)
    assert (refused.status_code, why in refused.json()["detail"]) == (code, True), refused.text


async def test_a_body_without_a_signature_or_of_no_json_is_refused(api: httpx.AsyncClient) -> None:
    unsigned = await api.post("/hooks/invoices", json={"no": "1"}, headers={WHO: "-"})
    assert (unsigned.status_code, "is not signed" in unsigned.json()["detail"]) == (401, True)
    data = b"{"
    headers = {WHO: "-", **sign_webhook([b"s" * 32], "msg-1", int(time.time()), data)}
    assert (await api.post("/hooks/invoices", content=data, headers=headers)).status_code == 400


async def test_a_service_sends_events_over_the_api(house: Harness, api: httpx.AsyncClient) -> None:
    number = house.unique
    run = await house.start(INVOICE, {"number": number})
    await waits(house, run, number)
    house.started.pop()
    event = {"name": "payment.received", "key": number, "payload": 3, "id": "evt-1"}
    denied = await api.post("/api/v1/events", json=event, headers={WHO: "reader"})
    taken, again = [await api.post("/api/v1/events", json=event, headers={WHO: "billing"}) for _ in range(2)]
    assert (denied.status_code, taken.status_code, again.json()) == (403, 200, taken.json())
    assert (await house.output(run))["payload"] == 3
    late = await api.post("/api/v1/events", json={**event, "id": "evt-2"}, headers={WHO: "billing"})
    assert (late.status_code, late.json()["code"]) == (404, "unknown_question")


async def test_an_event_for_a_named_run_is_kept(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(
        INVOICE.replace("steps:", "steps:\n  - {kind: hitl, name: ask, message: Go?}"), {"number": "1"}
    )
    question = await house.one(run)
    event = {"name": "payment.received", "key": "1", "id": "evt-1", "run": run}
    [receipt] = (await api.post("/api/v1/events", json=event, headers={WHO: "billing"})).json()
    assert receipt["status"] == "kept"
    await house.answer(run, "yes", question)
    assert (await house.output(run))["id"] == "evt-1"


@pytest.mark.parametrize(
    ("hook", "problem"),
    [
        ({"blueprint": "nothing"}, "hooks.bad.blueprint: there is no blueprint 'nothing'; there are: invoice"),
        ({"blueprint": "invoice", "input": {"n": "{{ bdy.no }}"}}, "hooks.bad.input: unknown name 'bdy'"),
        ({"blueprint": "invoice", "id": "{{ body. }}"}, "hooks.bad.id: "),
        ({"blueprint": "invoice", "secret_env": "NOT_SET"}, "hooks.bad.secret_env: NOT_SET is not set"),
        ({"blueprint": "invoice", "secret_env": "GITHUB_SECRET"}, "hooks.bad.secret_env: GITHUB_SECRET must be base64"),
    ],
)
def test_a_hook_with_a_mistake_is_told_with_its_key(house_folder: Config, hook: dict[str, Any], problem: str) -> None:
    good = HookSection(blueprint="invoice", secret_env="HOOK_SECRET")
    hooks = {"bad": HookSection(**{"secret_env": "HOOK_SECRET", **hook}), "good": good}
    config = house_folder.model_copy(update={"hooks": hooks})
    with pytest.raises(ConfigError) as caught:
        load_hooks(config)
    assert problem in str(caught.value)
    assert list(load_hooks(config, strict=False)) == ["good"]


@pytest.fixture
def house_folder(tmp_path: Any) -> Config:
    (tmp_path / "invoice.yaml").write_text(INVOICE)
    return Config(home=tmp_path, folder=tmp_path, serve=ServeSection(blueprints=["."]))


async def test_what_a_hook_starts_is_looked_up_on_a_worker(house: Harness) -> None:
    (house.folder / "broken.yaml").write_text("steps: [{name: a, uses: no_such_tool}]")
    hooks = {"broken": HookSection(blueprint="broken", secret_env="HOOK_SECRET")}
    [problem] = await look_up_hooks(site_of_house(house, serve=ServeSection(blueprints=["."]), hooks=hooks))
    assert problem.startswith("hooks.broken.blueprint: ") and "no_such_tool" in problem
