"""Large values lie outside of Temporal, are found again, and go when nothing refers to them any longer."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleSpec,
    ScheduleState,
    WorkflowExecutionDescription,
)
from temporalio.converter import ExternalStorage, StorageDriverClaim, StorageDriverRetrieveContext
from temporalio.converter import StorageDriverStoreContext as StoreContext
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from holdfast.activities import tool
from holdfast.protocol.runs import HistoryLimits
from holdfast.runtime.config import ConfigError, WorkerSettings, load_config
from holdfast.runtime.connection import connect, find_payload_place, make_converter
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.runtime.payloads import THRESHOLD, PayloadsUnreachable, buckets, driver
from holdfast.runtime.payloads.checkpoints import CHECKPOINTS, CheckpointBucket, CheckpointDirectory, list_threads
from holdfast.runtime.payloads.collection import InnerReferences, StoredAmount, collect_garbage
from holdfast.runtime.payloads.directory import NAMESPACES, NamespaceNote, PayloadDirectory, mend, remove
from holdfast.runtime.payloads.driver import PieceDriver
from holdfast.runtime.payloads.pieces import SMALLEST
from holdfast.runtime.payloads.store import Store
from tests.agents.turns import agent, call, turn
from tests.client.command import Holdfast, Process
from tests.conftest import ATTRIBUTES, Harness, until, worker_for
from tests.payload_stores import replay, storing

LARGE = "0123456789" * 10_000
HERE = __name__
TITLE = """
name: titled
steps:
  - {kind: hitl, name: title, message: A title?}
output: "{{ steps.title.output }}: {{ input }}"
"""
EVERYWHERE = f"""
name: large
context: {{said: ""}}
steps:
  - {{name: longer, uses: "{HERE}:longer", input: "{{{{ input }}}}"}}
  - kind: loop
    name: talk
    loop:
      max_loops: 9
      checkpoint_every: 1
      exit_expression: output == 'stop'
      body:
        - {{kind: hitl, name: more, message: Go on?, sink_to: said}}
output: {{longer: "{{{{ steps.longer.output }}}}", input: "{{{{ input }}}}"}}
"""


@tool(idempotent=True)
def longer(text: str) -> str:
    return text + "!"


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "HOLDFAST_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def folder(tmp_path: Path) -> PayloadDirectory:
    return PayloadDirectory(tmp_path / "payloads")


def payload(text: str) -> Payload:
    """A payload that is one piece: shorter ones stay in the claim."""
    return Payload(metadata={"encoding": b"json/plain"}, data=text.ljust(SMALLEST).encode())


async def stored(store: Store, *texts: str) -> list[StorageDriverClaim]:
    return await PieceDriver(store).store(StoreContext(), [payload(text) for text in texts])


async def read(store: Store, *claims: StorageDriverClaim) -> list[str]:
    found = await PieceDriver(store).retrieve(StorageDriverRetrieveContext(), claims)
    assert all(one.metadata == {"encoding": b"json/plain"} for one in found)
    return [one.data.decode().rstrip() for one in found]


def files(folder: PayloadDirectory) -> list[Path]:
    return [path for path, _ in folder.files()]


async def indexed(client: Client, *workflows: str) -> None:
    """Wait until the list of workflows, which gc reads and which lags behind, has the last execution of each."""
    for id in workflows:
        described = await client.get_workflow_handle(id).describe()

        async def listed(described: WorkflowExecutionDescription = described) -> bool:
            executions = client.list_workflows(f"WorkflowId = '{described.id}'")
            return described.run_id in [execution.run_id async for execution in executions]

        await until(listed, f"{id} in the list")


def age(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (0, 0))


# One folder


async def test_what_is_stored_is_read_again_and_equal_payloads_are_one_file(folder: PayloadDirectory) -> None:
    claims = await stored(folder, "one", "two", "one")
    assert await read(folder, *claims) == ["one", "two", "one"]
    assert len(files(folder)) == 2
    assert {folder.path(claim.claim_data["pieces"]) for claim in claims} == set(files(folder))


@pytest.mark.parametrize(("shared", "mode"), [(None, 0o600), (0o750, 0o640)])
async def test_what_is_stored_is_for_those_who_may_use_the_folder(
    tmp_path: Path, shared: int | None, mode: int
) -> None:
    folder = PayloadDirectory(tmp_path / "payloads")
    if shared is not None:
        folder.folder.mkdir(mode=shared)
    await stored(folder, "one")
    [path] = files(folder)
    assert path.stat().st_mode & 0o777 == mode
    assert path.parent.stat().st_mode & 0o777 == (shared or 0o700)


async def test_a_file_that_is_there_is_not_written_again_but_its_age_begins_anew(folder: PayloadDirectory) -> None:
    await stored(folder, "one")
    [path] = files(folder)
    before = path.stat().st_ino
    age(path)
    await stored(folder, "one")
    assert path.stat().st_ino == before
    assert path.stat().st_mtime > 0


async def test_a_file_that_was_cut_short_is_written_again(folder: PayloadDirectory) -> None:
    [claim] = await stored(folder, "one")
    files(folder)[0].write_bytes(b"")
    await stored(folder, "one")
    assert await read(folder, claim) == ["one"]


async def test_a_folder_may_be_moved(folder: PayloadDirectory, tmp_path: Path) -> None:
    claims = await stored(folder, "one")
    folder.folder.rename(tmp_path / "elsewhere")
    assert await read(PayloadDirectory(tmp_path / "elsewhere"), *claims) == ["one"]


async def test_a_missing_file_is_told_with_its_place_and_the_way_out(folder: PayloadDirectory) -> None:
    [claim] = await stored(folder, "one")
    [path] = files(folder)
    path.unlink()
    with pytest.raises(PayloadsUnreachable, match=rf"{path} is missing: .* Put the file back, or set external in"):
        await read(folder, claim)


async def test_a_damaged_file_is_told_with_its_place_and_the_way_out(folder: PayloadDirectory) -> None:
    [claim] = await stored(folder, "one")
    [path] = files(folder)
    path.write_bytes(path.read_bytes().replace(b"one", b"eno"))
    with pytest.raises(PayloadsUnreachable, match=rf"{path} is damaged: .* Put it back from a backup"):
        await read(folder, claim)


NONE = {"pieces": "", "rest": "", "envelope": ""}


@pytest.mark.parametrize(
    "wrong", [{"pieces": "../../etc/passwd"}, {"pieces": "A" * 64}, {"rest": "?"}, {"envelope": "AAAA"}]
)
async def test_a_claim_that_names_no_payload_reads_no_file(folder: PayloadDirectory, wrong: dict[str, str]) -> None:
    for claim in (wrong, {**NONE, **wrong}):
        with pytest.raises(PayloadsUnreachable, match="names no payload"):
            await read(folder, StorageDriverClaim(claim))


async def test_a_claim_that_names_one_piece_too_often_is_not_read(folder: PayloadDirectory) -> None:
    [claim] = await stored(folder, LARGE)
    often = " ".join([claim.claim_data["pieces"]] * 2800)
    with pytest.raises(PayloadsUnreachable, match="names more than 268435456 bytes"):
        await read(folder, StorageDriverClaim({**claim.claim_data, "pieces": often}))


async def test_what_is_too_large_to_be_read_is_not_stored(
    folder: PayloadDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "LONGEST", len(payload(LARGE).data))
    [claim] = await stored(folder, LARGE)
    assert await read(folder, claim) == [LARGE]
    with pytest.raises(ApplicationError, match="a value of .* bytes is too large"):
        await stored(folder, LARGE, LARGE + "more")


async def test_a_folder_that_cannot_be_written_is_told(folder: PayloadDirectory) -> None:
    folder.folder.write_text("a file")
    with pytest.raises(PayloadsUnreachable, match=r"payloads: a large value cannot be stored: .*make it writable"):
        await stored(folder, "one")


def _store_many(place: str, mine: int) -> list[dict[str, str]]:
    """A process: texts that all of them store, and its own."""
    texts = [text for n in range(40) for text in (f"all {n} {LARGE}", f"{mine} {n} {LARGE}")]
    claims = asyncio.run(stored(PayloadDirectory(Path(place)), *texts))
    return [dict(claim.claim_data) for claim in claims]


@pytest.mark.slow
async def test_processes_that_store_the_same_and_different_payloads_do_not_disturb_each_other(
    folder: PayloadDirectory,
) -> None:
    # Not forks of this process: other tests leave threads in it, whose locks a fork would wait for without end.
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(4, mp_context=context) as pool:
        made = list(pool.map(_store_many, [str(folder.folder)] * 4, range(4)))
    for mine, claims in enumerate(made):
        texts = await read(folder, *(StorageDriverClaim(claim) for claim in claims))
        assert texts == [text for n in range(40) for text in (f"all {n} {LARGE}", f"{mine} {n} {LARGE}")]
    assert len(files(folder)) == 40 + 4 * 40
    assert all(len(path.name) == 64 for path in files(folder))


@pytest.mark.slow
async def test_a_payload_that_is_stored_while_gc_removes_it_is_there(folder: PayloadDirectory) -> None:
    [claim] = await stored(folder, "one")
    path = folder.path(claim.claim_data["pieces"])
    for _ in range(300):
        age(path)
        together = threading.Barrier(2)

        def removing(together: threading.Barrier = together) -> None:
            together.wait()
            remove(path, before=1.0)

        thread = threading.Thread(target=removing)
        thread.start()
        together.wait()
        await stored(folder, "one")
        thread.join()
        assert await read(folder, claim) == ["one"]


async def test_what_a_killed_gc_had_in_hand_is_read_and_put_back(folder: PayloadDirectory) -> None:
    [claim] = await stored(folder, "one")
    [path] = files(folder)
    path.rename(f"{path}.going")
    assert await read(folder, claim) == ["one"]
    [going] = files(folder)
    assert mend(going) == path
    assert files(folder) == [path]


# The setting


async def test_a_payload_over_16_kib_goes_outside_and_a_smaller_one_stays(folder: PayloadDirectory) -> None:
    assert THRESHOLD == 16 * 1024
    [small, large] = await make_converter(f"dir:{folder.folder}").encode(["x" * 16_000, "x" * 16_500])
    assert small.ByteSize() > 16_000
    assert large.ByteSize() < 500
    assert len(files(folder)) == 1


async def test_reading_alone_stores_nothing(folder: PayloadDirectory) -> None:
    both, reading = (make_converter(f"dir:{folder.folder}", store=store) for store in (True, False))
    assert await reading.decode(await both.encode([LARGE])) == [LARGE]
    age(*files(folder))
    [inside] = await reading.encode([LARGE])
    assert inside.ByteSize() > len(LARGE)
    assert files(folder)[0].stat().st_mtime == 0


@pytest.mark.parametrize(
    ("text", "variable", "embedded", "place"),
    [
        ("", "", True, "dir:{home}/payloads"),
        ("", "", False, ""),
        ('[payloads]\nexternal = ""', "", True, ""),
        ('[payloads]\nexternal = "dir:large/values"', "", False, "dir:{folder}/large/values"),
        ('[payloads]\nexternal = "dir:/srv/values"', "", True, "dir:/srv/values"),
        ('[payloads]\nexternal = "s3://bucket/prefix"', "", True, "s3://bucket/prefix"),
        ('[payloads]\nexternal = "s3://bucket/prefix"', "gs://bucket", False, "gs://bucket"),
    ],
)
def test_the_place_is_that_of_the_variable_else_of_the_file_else_the_embedded_servers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, variable: str, embedded: bool, place: str
) -> None:
    (tmp_path / "holdfast.toml").write_text(text)
    monkeypatch.setenv("HOLDFAST_PAYLOADS", variable)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    config = load_config(tmp_path)
    assert config.place(embedded=embedded) == place.format(folder=tmp_path, home=tmp_path / "home")


def test_a_named_server_has_no_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_payload_place(load_config(tmp_path)) == f"dir:{tmp_path}/.holdfast/payloads"
    monkeypatch.setenv("TEMPORAL_ADDRESS", "localhost:7233")
    assert find_payload_place(load_config(tmp_path)) == ""


def test_a_variable_that_names_no_place_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_PAYLOADS", "/srv/values")
    with pytest.raises(ConfigError, match="HOLDFAST_PAYLOADS=/srv/values: must be dir:PATH, s3://"):
        load_config(tmp_path)


@pytest.mark.parametrize(
    ("place", "module", "extra"),
    [("s3://bucket/x", "aioboto3", "s3"), ("gs://bucket", "gcloud.aio.storage", "gcs")],
)
def test_a_package_that_is_not_installed_is_told_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, place: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    with pytest.raises(ConfigError, match=rf"'{place}' needs the package {module}, .*'holdfast\[{extra}\]'"):
        make_converter(place)


async def test_a_value_that_lies_elsewhere_is_told_with_the_way_out(folder: PayloadDirectory) -> None:
    in_folder = make_converter(f"dir:{folder.folder}")
    storage = ExternalStorage(drivers=[PieceDriver(bucket({}))], payload_size_threshold=THRESHOLD)
    in_bucket = replace(DATA_CONVERTER, external_storage=storage)
    with pytest.raises(
        PayloadsUnreachable, match=r"lies in a folder .*; here it is not set\. Set it in holdfast\.toml"
    ):
        await make_converter("").decode(await in_folder.encode([LARGE]))
    with pytest.raises(PayloadsUnreachable, match=r"lies in bucket 'bucket' .*; here it is 'dir:.*'\. Set it in"):
        await in_folder.decode(await in_bucket.encode([LARGE]))


class Objects:
    """A service of objects in a dictionary, which counts what it is asked."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects, self.asked = objects, 0

    async def exists(self, bucket: str, key: str) -> bool:
        self.asked += 1
        return f"{bucket}/{key}" in self.objects

    async def put(self, bucket: str, key: str, data: bytes) -> None:
        self.objects[f"{bucket}/{key}"] = data

    async def get(self, bucket: str, key: str) -> bytes:
        return self.objects[f"{bucket}/{key}"]


def bucket(objects: dict[str, bytes]) -> buckets.S3Bucket:
    return buckets.S3Bucket(Objects(objects), "bucket", "in/", "s3://bucket/in")


async def test_a_bucket_is_used_below_its_prefix_and_is_found_after_the_setting_has_changed() -> None:
    objects: dict[str, bytes] = {}
    claims = await stored(bucket(objects), LARGE, "two")
    assert {f"bucket/in/{claim.claim_data['pieces']}" for claim in claims} | {"bucket/in/key"} == set(objects)
    elsewhere = buckets.S3Bucket(Objects(objects), "another", "", "s3://another")
    assert await read(elsewhere, *claims) == [LARGE, "two"]


async def test_a_bucket_is_not_asked_again_for_what_it_had_a_moment_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    store = bucket({})
    driver, service = PieceDriver(store), store._objects
    assert isinstance(service, Objects)
    for _ in range(3):
        await driver.store(StoreContext(), [payload("one"), payload("two")])
    assert service.asked == 3  # for the key, and once for each
    monkeypatch.setattr(buckets, "TRUSTED", 0.0)
    service.objects.clear()
    await driver.store(StoreContext(), [payload("one")])
    assert len(service.objects) == 1


async def test_payloads_of_two_periods_share_no_object_of_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    objects: dict[str, bytes] = {}
    for seconds in (1e9, 1e9, 1e9 + buckets.SHARED):
        monkeypatch.setattr(buckets.time, "time", lambda seconds=seconds: seconds)
        await stored(bucket(objects), "one")
    assert len(objects) == 2 + 1


def in_a_bucket() -> CheckpointBucket:
    return CheckpointBucket(buckets.NamedObjects(Objects({}), "bucket", "in/"), "s3://bucket/in")


@pytest.fixture(params=["folder", "bucket"])
def checkpoints(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointDirectory | CheckpointBucket:
    return CheckpointDirectory(tmp_path) if request.param == "folder" else in_a_bucket()


async def test_the_records_of_a_thread_are_read_in_their_order(
    checkpoints: CheckpointDirectory | CheckpointBucket,
) -> None:
    store = checkpoints
    assert await store.read("run/thread") == []
    for number, record in enumerate((b"one", b"", b"two")):
        await store.append("run/thread", number, record)
    await store.append("run/other", 0, b"other")
    assert await store.read("run/thread") == [b"one", b"", b"two"]


async def test_an_attempt_that_was_given_up_writes_over_no_record_of_the_next(
    checkpoints: CheckpointDirectory | CheckpointBucket,
) -> None:
    store = checkpoints
    await store.append("run/thread", 0, b"next")
    with pytest.raises(ApplicationError, match="another attempt"):
        await store.append("run/thread", 0, b"given up")
    assert await store.read("run/thread") == [b"next"]


async def test_a_bucket_that_lost_a_payload_is_told_with_its_place() -> None:
    objects: dict[str, bytes] = {}
    claims = await stored(bucket(objects), LARGE)
    objects.clear()
    with pytest.raises(
        PayloadsUnreachable, match=r"cannot be read in s3://bucket/in .*key=in/[0-9a-f]{64}.* lifecycle"
    ):
        await read(bucket(objects), *claims)


CARRYING = """
name: carrying
steps:
  - kind: loop
    name: talk
    loop:
      max_loops: 9
      checkpoint_every: 1
      exit_expression: output == 'stop'
      body:
        - {kind: hitl, name: more, message: "{{ input|length }} letters; more?"}
output: "{{ input }}"
"""

# Runs


@asynccontextmanager
async def house_in(client: Client, place: str, folder: Path) -> AsyncIterator[Harness]:
    """A worker that keeps nothing in memory: every task reads the history again, and its payloads."""
    client = storing(client, place)
    harness = Harness(client, f"test-{uuid.uuid4().hex[:8]}", folder)
    async with worker_for(client, harness.runs.task_queue, settings=WorkerSettings(max_cached_workflows=0)):
        yield harness


@pytest.mark.slow
async def test_100_kb_through_input_tool_answer_and_result_leave_small_histories_that_replay(
    temporal: Client, folder: PayloadDirectory, tmp_path: Path
) -> None:
    place = f"dir:{folder.folder}"
    async with house_in(temporal, place, tmp_path) as house:
        run = await house.start(EVERYWHERE, LARGE)
        await house.answer(run, f"answer {LARGE}")
        await house.asked(run)
        assert (await house.runs.watch.outcome(await house.runs.state(run))).context["said"] == f"answer {LARGE}"
        await house.answered(run, "more", "stop")
        assert await house.output(run) == {"longer": LARGE + "!", "input": LARGE}
        histories = await house.histories(run)
        assert len(histories) == 4  # the run, and a loop that continued as new twice
        sizes = [event.ByteSize() for one in histories for event in one.events]
        assert max(sizes) < THRESHOLD
        assert sum(sizes) < 60_000
        await replay(house, run, make_converter(place, store=False))
        with pytest.raises(Exception, match="TMPRL1105"):
            await replay(house, run, DATA_CONVERTER)


@workflow.defn
class Carries:
    """Passes a large value through everything Holdfast's own workflows do not need of Temporal."""

    def __init__(self) -> None:
        self.signalled = ""

    @workflow.run
    async def run(self, text: str, child: bool = False) -> str:
        if child:
            return text
        await workflow.wait_condition(lambda: bool(self.signalled))
        child_said: str = await workflow.execute_child_workflow(
            "Carries", args=[text, True], id=f"{workflow.info().workflow_id}-child"
        )
        assert child_said == text
        done: str = await workflow.execute_activity(
            beats, text, start_to_close_timeout=timedelta(seconds=60), heartbeat_timeout=timedelta(seconds=30)
        )
        return done

    @workflow.signal
    def say(self, text: str) -> None:
        self.signalled = text

    @workflow.query
    def asked(self, text: str) -> str:
        return f"{text}?"

    @workflow.update
    def change(self, text: str) -> str:
        return text


BEATING, LEAVE = asyncio.Event(), asyncio.Event()


@activity.defn
async def beats(text: str) -> str:
    """Leaves a large heartbeat and stays under way until it may leave."""
    activity.heartbeat(f"beat {text}")
    BEATING.set()
    await LEAVE.wait()
    return text


@pytest.fixture(scope="module")
async def own_server() -> AsyncIterator[WorkflowEnvironment]:
    """A namespace of our own: gc reads every history there is."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=find_temporal_binary(), data_converter=DATA_CONVERTER, search_attributes=ATTRIBUTES
    ) as environment:
        yield environment


@pytest.mark.slow
async def test_signals_queries_updates_children_and_heartbeats_go_outside_too_and_gc_keeps_them(
    own_server: WorkflowEnvironment, folder: PayloadDirectory
) -> None:
    client = storing(own_server.client, f"dir:{folder.folder}")
    runner = UnsandboxedWorkflowRunner()
    worker = Worker(client, task_queue="carries", workflows=[Carries], activities=[beats], workflow_runner=runner)
    async with worker:
        handle = await client.start_workflow("Carries", LARGE, id="carries", task_queue="carries")
        assert await handle.execute_update("change", f"update {LARGE}") == f"update {LARGE}"
        assert await handle.query("asked", f"query {LARGE}") == f"query {LARGE}?"
        await handle.signal("say", f"signal {LARGE}")
        await BEATING.wait()

        async def beaten() -> bool:
            described = await handle.describe()
            return any(one.heartbeat_details.payloads for one in described.raw_description.pending_activities)

        await until(beaten, "the heartbeat")
        await indexed(client, "carries", "carries-child")
        age(*files(folder))
        assert (await collect_garbage(client, folder.folder)).removed.files == 2  # what was asked and told in the query
        assert sorted(len(path.read_bytes()) // 1000 for path in files(folder)) == [100] * 4
        LEAVE.set()
        assert await handle.result() == LARGE
    for workflow_id in ("carries", "carries-child"):
        history = await client.get_workflow_handle(workflow_id).fetch_history()
        assert max(event.ByteSize() for event in history.events) < THRESHOLD


# gc


@pytest.mark.slow
async def test_gc_keeps_what_a_waiting_run_needs_and_the_run_completes_and_replays(
    own_server: WorkflowEnvironment, folder: PayloadDirectory, tmp_path: Path
) -> None:
    place = f"dir:{folder.folder}"
    async with house_in(own_server.client, place, tmp_path) as house:
        run = await house.start(TITLE, LARGE)
        await house.asked(run)
        await indexed(house.client, run)
        needed = files(folder)
        [left, _] = await stored(folder, "left by nobody", "young")
        age(*needed, folder.path(left.claim_data["pieces"]))
        done = await collect_garbage(house.client, folder.folder)
        assert (done.removed.files, done.kept.files) == (1, len(needed) + 1)
        assert set(needed) < set(files(folder))
        await house.answer(run, "Of digits")
        assert await house.output(run) == f"Of digits: {LARGE}"
        age(*files(folder))
        await collect_garbage(house.client, folder.folder)
        await replay(house, run, make_converter(place, store=False))
        assert await house.output(run) == f"Of digits: {LARGE}"


@pytest.mark.slow
async def test_gc_keeps_what_a_loop_carries_for_a_question_of_100_days(
    own_server: WorkflowEnvironment, folder: PayloadDirectory, tmp_path: Path
) -> None:
    async with house_in(own_server.client, f"dir:{folder.folder}", tmp_path) as house:
        run = await house.start(CARRYING, LARGE)
        await house.answered(run, "a", "b")  # it has continued as new twice: the value is in its state
        question = await house.one(run)
        await indexed(house.client, run, question.owner)
        for path in files(folder):
            os.utime(path, times=(path.stat().st_atime, time.time() - 100 * 86400))
        await collect_garbage(house.client, folder.folder)
        await house.answered(run, "stop")
        assert await house.output(run) == LARGE


@pytest.mark.slow
async def test_gc_keeps_a_conversation_that_waits_for_100_days(
    own_server: WorkflowEnvironment, folder: PayloadDirectory, tmp_path: Path
) -> None:
    place = f"dir:{folder.folder}"
    async with house_in(own_server.client, place, tmp_path) as house:
        pages = [turn(call("longer", text=f"{n}".ljust(4000, "x"))) for n in range(20)]
        asking = turn(call("request_user_info", question="Go on?"))
        text = agent(
            house,
            [*pages, asking, {"output": "the end", "expect": "0".ljust(4000, "x") + "!"}],
            tools=[f"{HERE}:longer"],
            human=["ask"],
            max_turns=30,
        )
        run = await house.start(text, "Read.", history_limits=HistoryLimits(rounds=9))
        question = await house.one(run)
        await indexed(house.client, run, question.owner)
        queue = house.runs.task_queue
        for path in files(folder):
            os.utime(path, times=(path.stat().st_atime, time.time() - 100 * 86400))
        assert max(InnerReferences(folder).measure_height(path.name) for path in files(folder)) == 1
        await collect_garbage(house.client, folder.folder)
    async with worker_for(storing(own_server.client, place), queue):  # has no piece in memory
        await house.answered(run, "yes")
        assert await house.output(run) == "the end"


@pytest.mark.slow
async def test_a_store_that_is_away_for_a_while_loses_nothing(
    own_server: WorkflowEnvironment, folder: PayloadDirectory, tmp_path: Path
) -> None:
    place = f"dir:{folder.folder}"
    async with house_in(own_server.client, place, tmp_path) as house:
        run = await house.start(TITLE, LARGE)
        question = await house.one(run)
        queue = house.runs.task_queue
    away = folder.folder.rename(tmp_path / "away")
    client = storing(own_server.client, place)
    async with worker_for(client, queue, settings=WorkerSettings(max_cached_workflows=0)):  # has no piece in memory
        answer = {"question": question.id, "content": "Of digits"}
        await house.runs.client.get_workflow_handle(run).signal("answer", answer)

        async def fails() -> bool:
            described = await house.runs.client.get_workflow_handle(run).describe()
            return described.raw_description.pending_workflow_task.attempt > 1

        await until(fails, "a task that is retried")
        shutil.rmtree(folder.folder, ignore_errors=True)
        away.rename(folder.folder)
        assert await house.output(run) == f"Of digits: {LARGE}"


async def test_gc_keeps_values_and_checkpoints_of_an_ended_run_until_it_is_deleted(
    own_server: WorkflowEnvironment, folder: PayloadDirectory, tmp_path: Path
) -> None:
    async with house_in(own_server.client, f"dir:{folder.folder}", tmp_path) as house:
        run = await house.start(TITLE, f"to be deleted {LARGE}")
        await house.asked(run)
        handle = house.client.get_workflow_handle(run)
        await CheckpointDirectory(folder.folder).append(f"{(await handle.describe()).run_id}/thread", 0, b"record")
        await handle.terminate()
        await indexed(house.client, run)
        age(*files(folder), *(folder.folder / CHECKPOINTS).iterdir())
        assert (await collect_garbage(house.client, folder.folder)).kept.files == 2
        request = DeleteWorkflowExecutionRequest(
            namespace=house.client.namespace, workflow_execution=WorkflowExecution(workflow_id=run)
        )
        await house.client.workflow_service.delete_workflow_execution(request, retry=True)

        async def gone() -> bool:
            return (await collect_garbage(house.client, folder.folder)).kept == StoredAmount()

        await until(gone, "the deletion")
        assert [*files(folder), *list_threads(folder.folder)] == []


async def test_gc_keeps_what_a_schedule_will_start_with(
    own_server: WorkflowEnvironment, folder: PayloadDirectory
) -> None:
    client = storing(own_server.client, f"dir:{folder.folder}")
    action = ScheduleActionStartWorkflow("Carries", f"scheduled {LARGE}", id="later", task_queue="carries")
    schedule = Schedule(action=action, spec=ScheduleSpec(), state=ScheduleState(paused=True))
    handle = await client.create_schedule("later", schedule)

    async def listed() -> bool:
        return "later" in [one.id async for one in await client.list_schedules()]

    await until(listed, "the schedule")
    age(*files(folder))
    assert (await collect_garbage(client, folder.folder)).kept.files == 1
    await handle.delete()


async def test_gc_refuses_a_folder_that_another_namespace_refers_to(
    own_server: WorkflowEnvironment, folder: PayloadDirectory
) -> None:
    await stored(folder, "one")
    age(*files(folder))
    NamespaceNote("another-id", "people at temporal.example:7233").write(folder.folder)
    with pytest.raises(ConfigError, match=r"of namespace people at temporal.example:7233, .*delete .*another-id; else"):
        await collect_garbage(own_server.client, folder.folder)
    assert len(files(folder)) == 1


async def test_a_folder_notes_a_namespace_with_its_first_value_and_not_with_a_visit(
    house: Harness, folder: PayloadDirectory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", house.client.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", house.client.namespace)
    monkeypatch.setenv("HOLDFAST_PAYLOADS", f"dir:{folder.folder}")
    client = (await connect()).client
    assert not (folder.folder / NAMESPACES).exists()
    await client.data_converter.encode([LARGE])
    [note] = (folder.folder / NAMESPACES).iterdir()
    assert note.read_text().startswith(f"{house.client.namespace} at ")


# The command line


@pytest.mark.slow
def test_a_large_value_of_the_embedded_server_lies_in_its_folder_and_replays(embedded: Process) -> None:
    embedded.write("large.txt", LARGE)
    ran = embedded("run", embedded.write("titled.yaml", TITLE), "--input", "@large.txt", "--id", "large", typed="Ten\n")
    assert ran.out == f"Ten: {LARGE}\n"
    assert len(files(PayloadDirectory(embedded.folder / "state" / "payloads"))) >= 2
    assert embedded("replay", "large").code == 0


@pytest.mark.slow
def test_gc_says_what_it_removed_and_kept(embedded: Process) -> None:
    assert embedded("setup").code == 0  # the server's state: another test of this process may not have made it
    directory = PayloadDirectory(embedded.folder / "state" / "payloads")
    asyncio.run(stored(directory, "left by nobody"))
    age(*files(directory))
    kept = len(files(directory)) - 1
    done = embedded("gc", "--json").json
    assert list(done) == ["folder", "removed", "kept"]
    assert (done["removed"]["files"], done["kept"]["files"]) == (1, kept)
    assert (
        embedded("gc", "--older-than", "1d").err == f"{directory.folder}: removed 0 files (0.0 kB), kept {told(done)}\n"
    )


def told(done: dict[str, Any]) -> str:
    files, size = done["kept"]["files"], done["kept"]["bytes"]
    return f"{files} file{'' if files == 1 else 's'} ({size / 1000:,.1f} kB)"


@pytest.mark.parametrize(
    ("words", "place", "message"),
    [
        ((), "s3://bucket/x", "gc clears folders only; for s3://bucket/x use a lifecycle rule of the bucket"),
        (("--older-than", "soon"), "", "--older-than: 'soon' is not a duration"),
        (("--older-than", "1s"), "", "--older-than 1s: must be a minute or more"),
    ],
)
def test_gc_refuses_what_it_cannot_do(tmp_path: Path, words: tuple[str, ...], place: str, message: str) -> None:
    ran = Holdfast(tmp_path, HOLDFAST_PAYLOADS=place)("gc", *words)
    assert ran.code == 2
    assert ran.err.startswith(message)


@pytest.mark.slow
def test_gc_without_anything_outside_says_so(tmp_path: Path) -> None:
    ran = Holdfast(tmp_path, TEMPORAL_ADDRESS="127.0.0.1:1")("gc")
    assert ran.code == 2
    assert "nothing to remove" in ran.err


@pytest.mark.slow
def test_the_embedded_worker_gets_the_folder_of_the_command(tmp_path: Path) -> None:
    holdfast = Process(tmp_path)
    try:
        assert holdfast("start", holdfast.write("first.yaml", "steps: [{name: first}]")).code == 0
        holdfast.environment["HOLDFAST_PAYLOADS"] = "dir:large"
        holdfast.write("large.txt", LARGE)
        ran = holdfast("run", holdfast.write("titled.yaml", TITLE), "--input", "@large.txt", typed="Ten\n")
        assert ran.out == f"Ten: {LARGE}\n"
        assert len(files(PayloadDirectory(tmp_path / "large"))) >= 2
        assert files(PayloadDirectory(tmp_path / "state" / "payloads")) == []
    finally:
        holdfast("down")
