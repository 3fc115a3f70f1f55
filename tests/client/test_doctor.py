"""`holdfast doctor`: each planted fault is named, with its check and a way out."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment

from holdfast.activities import CacheStore, all_activities, store_at
from holdfast.activities.checkup import CheckActivities
from holdfast.cli.doctor import Deployment, Finding, examine
from holdfast.cli.doctor.access import check_rules
from holdfast.cli.doctor.machine import check_machine
from holdfast.protocol.guard import DEPLOYMENT, Key
from holdfast.runtime.config import WorkerSettings, load_config
from holdfast.runtime.connection import make_converter
from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.runtime.encryption import derive_check_keys, load_key_ring
from holdfast.runtime.secrets import open_backends
from holdfast.runtime.workers import find_last_poll
from holdfast.server.record.entries import RecordedRun
from holdfast.server.record.jobs import Lease
from holdfast.server.record.progress import Progress, WorkflowProgress, make_scope, name_lease
from holdfast.server.record.store import open_store
from holdfast.worker import create_worker
from tests.record.ground import full_disk


@pytest.fixture(autouse=True)
def project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "HOLDFAST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
async def bare_server() -> AsyncIterator[WorkflowEnvironment]:
    """A server without our search attributes, and with the retention of a new namespace."""
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=find_temporal_binary()) as environment:
        yield environment


@pytest.fixture
def server(bare_server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch) -> WorkflowEnvironment:
    monkeypatch.setenv("TEMPORAL_ADDRESS", str(bare_server.client.service_client.config.target_host))
    return bare_server


def configure(text: str) -> None:
    queue = f'[worker]\ntask_queue = "{os.urandom(4).hex()}"\n'
    Path("holdfast.toml").write_text(f'{queue}[payloads]\nexternal = "dir:payloads"\n{text}')


@asynccontextmanager
async def worker(
    server: WorkflowEnvironment, settings: WorkerSettings | None = None, clock: Any = None
) -> AsyncIterator[None]:
    """Run a worker of this folder's configuration."""
    config = load_config()
    options = {
        **server.client.config(),
        "data_converter": make_converter(config.place(embedded=False), ring=load_key_ring(config)),
    }
    client = type(server.client)(**options)
    cache: CacheStore = store_at("sqlite::memory:")
    ring = load_key_ring(config)
    activities = all_activities([], {}, cache=cache, secrets=open_backends(config), encryption=derive_check_keys(ring))
    if clock is not None:
        others = [activity for activity in activities if activity.__name__ != "check"]
        activities = [*others, CheckActivities(cache, {}, clock=clock).check]
    async with create_worker(client, task_queue=config.worker.task_queue, activities=activities, settings=settings):
        while await find_last_poll(client, config.worker.task_queue) is None:
            await asyncio.sleep(0.02)
        yield


async def found(check: str) -> list[Finding]:
    """Return what is not in order."""
    findings = [finding for finding in await examine(load_config()) if finding.check == check]
    return [finding for finding in findings if finding.status != "ok"]


async def only(check: str) -> Finding:
    [finding] = await found(check)
    assert finding.remedy
    return finding


async def test_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
    finding = await only("server")
    assert (finding.status, "127.0.0.1:9" in finding.message) == ("fault", True)


async def test_the_local_server_is_not_started() -> None:
    assert (await only("server")).status == "fault"
    assert not Path(".holdfast").exists()


async def test_what_was_found_is_told_where_the_server_does_no_work(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(deployment: Deployment) -> list[Finding]:
        raise RPCError("shard status unknown", RPCStatusCode.UNAVAILABLE, b"")

    monkeypatch.setattr("holdfast.cli.doctor.check_workers", fail)
    configure("")
    findings = await examine(load_config())
    assert (findings[-1].check, findings[-1].status) == ("server", "fault")
    assert "shard status unknown" in findings[-1].message
    assert "full disk" in (findings[-1].remedy or "")
    assert "storage" in {finding.check for finding in findings}


async def test_a_wrong_namespace(server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "nowhere")
    finding = await only("namespace")
    assert (finding.status, "nowhere" in finding.message) == ("fault", True)


@pytest.mark.parametrize(
    ("check", "status"), [("search_attributes", "fault"), ("retention", "warning"), ("worker", "fault")]
)
async def test_a_namespace_that_nobody_prepared(server: WorkflowEnvironment, check: str, status: str) -> None:
    configure("")
    assert (await only(check)).status == status


@pytest.mark.slow
async def test_a_version_that_nobody_made_current(server: WorkflowEnvironment) -> None:
    configure("")
    async with worker(server, WorkerSettings(build_id="b7", deployment=os.urandom(4).hex())):
        finding = await only("worker")
    assert (finding.status, "b7" in finding.message) == ("fault", True)
    assert "waits" not in str(finding.remedy)  # no run was named


async def test_a_clock_that_is_off(server: WorkflowEnvironment) -> None:
    configure("")
    async with worker(server, clock=lambda: datetime.now(UTC) + timedelta(minutes=2)):
        finding = await only("clock")
    assert (finding.status, "worker's clock" in finding.message) == ("fault", True)


async def test_storage_that_cannot_be_written(server: WorkflowEnvironment) -> None:
    configure('[secrets]\nstore = "dir:/proc/secrets"\n')  # where not even root makes a folder
    finding = await only("storage")
    assert (finding.status, "/proc/secrets" in finding.message) == ("fault", True)


def test_folders_that_others_may_look_into(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir(mode=0o755)
    configure(f'[secrets]\nstore = "dir:{tmp_path / "kept"}"\n')
    load_config().home.mkdir(mode=0o755, parents=True, exist_ok=True)
    load_config().home.chmod(0o755)
    found = {finding.status: finding.message for finding in check_machine(load_config(), is_shared=True)}
    assert "no secret is kept there" in found["fault"] and "state: others may look into" in found["warning"]


def test_storage_that_takes_no_more_content() -> None:
    configure("")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        findings = check_machine(load_config(), is_shared=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {finding.status for finding in findings if finding.check == "storage"} == {"fault"}


async def test_a_key_that_is_not_set(server: WorkflowEnvironment) -> None:
    configure('[answers]\nkeys = [{id = "ops", env = "OPS_KEY"}]\n')
    finding = await only("keys")
    assert (finding.status, "OPS_KEY" in finding.message) == ("fault", True)


@pytest.mark.parametrize(
    ("keys", "message"),
    [([], "does not know the key ops"), ([Key("ops", "another")], "the key ops has another value")],
)
async def test_a_key_that_the_worker_has_not(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, keys: list[Key], message: str
) -> None:
    configure('[answers]\nkeys = [{id = "ops", env = "OPS_KEY"}]\n')
    monkeypatch.setenv("OPS_KEY", "our key")
    monkeypatch.setattr(DEPLOYMENT, "keys", keys)
    async with worker(server):
        finding = await only("keys")
    assert (finding.status, message in finding.message, "our key" in str(finding)) == ("fault", True, False)


async def test_a_key_of_encryption_that_is_not_set(server: WorkflowEnvironment) -> None:
    configure('[encryption]\nkeys = [{id = "new", env = "NEW_KEY"}]\n')
    findings = {finding.check: finding for finding in await examine(load_config()) if finding.status != "ok"}
    assert (findings["encryption"].status, findings["server"].status) == ("fault", "unchecked")
    assert "NEW_KEY" in findings["encryption"].message and findings["encryption"].remedy


BOTH_KEYS = '{id = "new", env = "NEW_KEY"}, {id = "old", env = "OLD_KEY"}'


def set_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the variables of `BOTH_KEYS`."""
    monkeypatch.setenv("NEW_KEY", "n" * 40)
    monkeypatch.setenv("OLD_KEY", "o" * 40)


@pytest.mark.parametrize(
    ("worker_keys", "message"),
    [
        ('{id = "new", env = "NEW_KEY"}', "cannot be decrypted with the key 'new'"),
        ('{id = "old", env = "OLD_KEY"}', "on the worker, a value is encrypted with the key 'new'"),
    ],
)
async def test_a_key_of_encryption_that_the_worker_has_not(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, worker_keys: str, message: str
) -> None:
    set_keys(monkeypatch)
    configure(f"[encryption]\nkeys = [{worker_keys}]\n")
    async with worker(server):
        text = Path("holdfast.toml").read_text()
        Path("holdfast.toml").write_text(text.replace(worker_keys, BOTH_KEYS))
        monkeypatch.setenv("NEW_KEY", "another value that is long enough for it" if "new" in worker_keys else "n" * 40)
        finding = await only("encryption")
    assert (finding.status, message in finding.message) == ("fault", True)


async def test_a_key_of_encryption_that_the_worker_alone_has(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_keys(monkeypatch)
    configure(f"[encryption]\nkeys = [{BOTH_KEYS}]\n")
    async with worker(server):
        text = Path("holdfast.toml").read_text()
        Path("holdfast.toml").write_text(text.replace(', {id = "old", env = "OLD_KEY"}', ""))
        finding = await only("encryption")
    assert (finding.status, "the worker has the key old" in finding.message) == ("warning", True)


async def test_an_old_key_of_encryption_that_has_another_value_here(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_keys(monkeypatch)
    configure(f"[encryption]\nkeys = [{BOTH_KEYS}]\n")
    async with worker(server):
        monkeypatch.setenv("OLD_KEY", "x" * 40)
        finding = await only("encryption")
    assert (finding.status, finding.message) == ("fault", "the key old has another value on the worker")


async def test_groups_and_models_that_the_worker_does_not_know(server: WorkflowEnvironment) -> None:
    configure('[groups]\neditors = ["user:ana"]\n[models.fast]\nmodel = "echo"\n')
    async with worker(server):
        messages = [finding.message for finding in await found("names")]
    assert ["'fast'" in messages[0], "'editors'" in messages[1]] == [True, True]


async def test_a_variable_that_is_not_set(server: WorkflowEnvironment) -> None:
    configure('[models.fast]\nmodel = "openai:gpt"\napi_key_env = "FAST_KEY"\n')
    finding = await only("variables")
    assert (finding.status, "models.fast.api_key_env: FAST_KEY" in finding.message) == ("warning", True)


def hook(folder: Path, text: str) -> None:
    """Configure a hook that starts a blueprint with an input of its own."""
    (folder / "invoice.yaml").write_text(
        "inputs: {type: object, required: [number]}\nsteps: [{kind: hitl, name: a, message: b}]"
    )
    configure(f'[serve]\nblueprints = ["."]\n[hooks.bills]\nsecret_env = "BILLS_SECRET"\n{text}')


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('blueprint = "invoise"', "hooks.bills.blueprint: there is no blueprint 'invoise'"),
        ('blueprint = "invoice"\ninput = {no = "{{ body.no }}"}', "hooks.bills.input: 'number' is missing"),
        ('event = "paid"\nkey = "{{ bdy.no }}"', "hooks.bills.key: unknown name 'bdy'"),
    ],
)
async def test_a_hook_that_is_wrong(tmp_path: Path, text: str, place: str) -> None:
    hook(tmp_path, text)
    finding = await only("hooks")
    assert (finding.status, finding.message.startswith(place)) == ("fault", True), finding


async def test_a_secret_of_a_hook_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook(tmp_path, 'blueprint = "invoice"\ninput = {number = "{{ body.no }}"}')
    [right] = [finding for finding in await examine(load_config()) if finding.check == "hooks"]
    assert right.status == "ok"
    monkeypatch.setenv("BILLS_SECRET", "no secret")
    assert (await only("hooks")).message.startswith("hooks.bills.secret_env: BILLS_SECRET ")


async def test_values_and_secrets_that_the_worker_cannot_read(server: WorkflowEnvironment) -> None:
    configure("")
    async with worker(server):  # which has no store at all
        text = Path("holdfast.toml").read_text() + '[secrets]\nstore = "dir:here"\n'
        Path("holdfast.toml").write_text(text)
        assert (await only("secrets")).status == "fault"
        Path("holdfast.toml").write_text(text.replace("dir:payloads", "dir:elsewhere"))
        assert (await only("payloads")).status == "fault"
    assert not list(Path("here").iterdir())


async def test_a_run_that_is_not_recorded_in_time(server: WorkflowEnvironment) -> None:
    configure("")
    store = open_store(load_config().record_place())
    run = RecordedRun("default", "late", "first-run", "demo")
    closed = datetime.now(UTC) - timedelta(hours=20)
    Progress(store, "default").keep(WorkflowProgress(run, "late", 0, "first-run", closed, complete=False))
    store.close()
    assert (await only("record")).status == "fault"


@pytest.mark.parametrize(("seconds", "told"), [(3600.0, "late/loop:a"), (-1.0, "has stopped")])
async def test_a_recorder_that_reads_slowly_or_has_stopped(
    server: WorkflowEnvironment, seconds: float, told: str
) -> None:
    configure("")
    config = load_config()
    store = open_store(config.record_place())
    scope = make_scope("default", config.worker.task_queue)
    Progress(store, "default", scope).note_slow_reads(["late/loop:a"])
    assert Lease(store, name_lease(scope), seconds).hold()
    store.close()
    finding = await only("record")
    assert (finding.status, told in finding.message) == ("warning", True)


async def test_a_record_that_cannot_be_written(server: WorkflowEnvironment) -> None:
    configure("")
    store = open_store(load_config().record_place())
    store.close()
    with full_disk():
        finding = await only("record")
    assert (finding.status, "cannot be written" in finding.message) == ("fault", True)
    assert "Make space" in (finding.remedy or "")


@pytest.mark.slow
async def test_a_deployment_in_order(server: WorkflowEnvironment) -> None:
    configure('[secrets]\nstore = "dir:secrets"\n')
    async with worker(server):
        ok = {finding.check for finding in await examine(load_config()) if finding.status == "ok"}
    assert ok >= {"encryption", "variables", "storage", "server", "namespace", "worker", "clock", "payloads", "secrets"}


SIGN_IN = '[serve]\nblueprints = ["."]\nuser_header = "X-User"\ntrusted_proxies = ["10.0.0.5"]\n'


@pytest.mark.parametrize(
    ("settings", "access", "status"),
    [
        ("", "", "ok"),
        (SIGN_IN, "", "warning"),
        (SIGN_IN, "access: {see: ['group:hr']}\n", "ok"),
        (SIGN_IN + '[access]\nsteer = ["group:ops"]\n', "", "ok"),
        (SIGN_IN + '[access."other-*"]\nsteer = ["group:ops"]\n', "", "warning"),
    ],
)
async def test_what_nobody_may_see_is_told(tmp_path: Path, settings: str, access: str, status: str) -> None:
    (tmp_path / "invoice.yaml").write_text(access + "name: invoice\nsteps: [{kind: hitl, name: a, message: b}]")
    configure(settings)
    finding = check_rules(load_config())
    assert (finding.status, "invoice" in finding.message) == (status, status == "warning")
