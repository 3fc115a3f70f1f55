"""Checks of `holdfast doctor` of the workers: present, current, and able to use what runs need."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from temporalio.api.workflowservice.v1 import DescribeTaskQueueResponse
from temporalio.client import ActivityFailureError, ActivityHandle
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import ApplicationError, FailureError, TimeoutError, TimeoutType
from temporalio.service import RPCError, RPCStatusCode

from holdfast.blueprint.people import GROUP
from holdfast.blueprint.questions.secret import reference_in
from holdfast.cli.doctor.findings import Finding, make_fault
from holdfast.cli.doctor.server import Deployment
from holdfast.client.lookup import Unchecked
from holdfast.client.worker_lookup import look_up_names
from holdfast.protocol.address import read_run
from holdfast.protocol.checkup import CHECK_WORKER, FILLER_BYTES, CheckWorker, WorkerState, make_proof
from holdfast.protocol.guard import Key
from holdfast.protocol.lookup import RequiredName
from holdfast.protocol.names import HOLD_MARK
from holdfast.runtime.config import Config, ConfigError
from holdfast.runtime.embedded.home import read
from holdfast.runtime.embedded.worker import find_workers
from holdfast.runtime.encryption import NotDecrypted, derive_check_keys, load_key_ring
from holdfast.runtime.namespace import quote
from holdfast.runtime.payloads import PayloadsUnreachable
from holdfast.runtime.secrets import SecretDirectory, keeper
from holdfast.runtime.workers import (
    GONE_SECONDS,
    NoWorker,
    Version,
    advise_current,
    describe_queue,
    explain_no_work,
    find_current_version,
    find_idle_version,
    list_fresh_pollers,
    list_polling_versions,
)

SECONDS = 15.0
"""The time for a worker to take and do the check: one that is idle needs milliseconds."""
MOST_PINNED = 1_000
"""Workflows that are looked at for the versions to which they are pinned."""
VERSION_KEY = SearchAttributeKey.for_keyword("TemporalWorkerDeploymentVersion")
CLOCK = timedelta(seconds=5)
"""The difference of clocks that is told: tokens and deadlines count seconds."""
SAME_KEYS = "Give all processes the same [encryption] keys, with the same values, and start them again."


async def check_workers(deployment: Deployment) -> list[Finding]:
    """Return what is wrong with the workers of the configured task queue."""
    failed = _check_start(deployment)
    if failed and not find_workers(deployment.config.home):  # the server still lists the one that has stopped
        return failed
    queue = deployment.config.worker.task_queue
    reply = await describe_queue(deployment.client, queue)
    reason = explain_no_work(queue, reply)
    if reason is not None:
        return [*failed, _no_work(reason, embedded=deployment.embedded)]
    return [
        *failed,
        *_describe(queue, reply),
        *await check_pins(deployment, reply),
        *await _check_one(deployment, queue, find_idle_version(reply)),
    ]


async def check_pins(deployment: Deployment, reply: DescribeTaskQueueResponse) -> list[Finding]:
    """Return a fault for each version that open workflows are pinned to and of which no worker polls."""
    queue = quote(deployment.config.worker.task_queue)
    pinned = f"TaskQueue = '{queue}' AND ExecutionStatus = 'Running' AND TemporalWorkflowVersioningBehavior = 'Pinned'"
    polling = {f"{version.deployment}:{version.build}" for version in list_polling_versions(reply)}
    lost: dict[str, list[str]] = defaultdict(list)
    async for execution in deployment.client.list_workflows(pinned, limit=MOST_PINNED):
        version = execution.typed_search_attributes.get(VERSION_KEY)
        if version is not None and version not in polling:
            lost[version].append(execution.id)
    remedy = "Start a worker of it, or move the runs to the current one: `holdfast show RUN` has the command."
    return [
        Finding("version", "fault", f"no worker of {version} polls, and {_name_runs(ids)} pinned to it", remedy)
        for version, ids in sorted(lost.items())
    ]


def _name_runs(ids: Sequence[str]) -> str:
    """Return the first runs of these workflows with the verb, such as `a, b, c and 2 more are`."""
    runs = sorted({read_run(id_) for id_ in ids})
    more = "" if len(runs) < 4 else f" and {len(runs) - 3} more"
    return f"{', '.join(runs[:3])}{more} {'is' if len(runs) == 1 else 'are'}"


def _check_start(deployment: Deployment) -> list[Finding]:
    """Return why the local worker did not start when a command was to start or replace it; empty if it did."""
    failure = read(deployment.config.home).failed_start if deployment.embedded else ""
    if not failure:
        return []
    remedy = "Mend that; the next command that starts or steers a run, such as holdfast attach RUN, starts it."
    return [Finding("worker", "fault", f"its last start failed: {failure}", remedy)]


def _no_work(reason: NoWorker, *, embedded: bool) -> Finding:
    finding = make_fault("worker", reason.reason)
    if type(reason) is not NoWorker:
        return finding
    start = "any other command, such as holdfast runs, starts it" if embedded else "holdfast worker"
    return replace(finding, remedy=f"Start one: {start}; workers and clients need the same [worker] task_queue.")


def _describe(queue: str, reply: DescribeTaskQueueResponse) -> list[Finding]:
    """Return who polls the queue, and under which versions."""
    fresh = list_fresh_pollers(reply)
    # The server does not tell who has stopped since.
    message = f"{len(fresh)} polled task queue '{queue}' in the last {GONE_SECONDS:.0f} s"
    findings = [Finding("worker", "ok", message)]
    if any(poller.identity.endswith(HOLD_MARK) for poller in fresh):
        remedy = "Start it without [worker] hold and HOLDFAST_HOLD once runs may go on."
        findings.append(Finding("hold", "warning", "a worker is on hold: it starts no activity", remedy))
    builds = {poller.deployment_options.build_id for poller in fresh} - {""}
    if builds:
        current = find_current_version(reply) or "none"
        findings.append(Finding("version", "ok", f"running builds: {', '.join(sorted(builds))}; current: {current}"))
    return findings


async def _check_one(deployment: Deployment, queue: str, idle: Version | None) -> list[Finding]:
    """Have a worker check itself, and its names looked up."""
    asked = _Check.of(deployment.config, embedded=deployment.embedded)
    before = datetime.now(UTC)
    try:
        handle = await _start_check(deployment, queue, asked)
        after = datetime.now(UTC)
        state: WorkerState = await handle.result()
        return [
            *await _check_clocks(handle, state, before, after),
            *_check_state(asked, state),
            *_compare_encryption(deployment.config, state),
            *await _check_names(deployment, queue),
        ]
    except RPCError as error:
        if error.status != RPCStatusCode.UNIMPLEMENTED:
            raise
        return [
            Finding("worker", "unchecked", "the server does not support standalone activities, which this check needs")
        ]
    except ActivityFailureError as error:
        return [_failure(error.cause, idle)]
    except PayloadsUnreachable as error:
        return [Finding("payloads", "fault", str(error), "Correct [payloads] external, or the store.")]
    except NotDecrypted as error:
        return [Finding("encryption", "fault", f"of the worker's reply, {error}", SAME_KEYS)]
    finally:
        asked.forget()


async def _start_check(deployment: Deployment, queue: str, asked: _Check) -> ActivityHandle[WorkerState]:
    return await deployment.client.start_activity(
        CHECK_WORKER,
        asked.request,
        id=f"holdfast-doctor-{secrets.token_hex(8)}",
        task_queue=queue,
        result_type=WorkerState,
        schedule_to_close_timeout=timedelta(seconds=SECONDS),
        retry_policy=RetryPolicy(maximum_attempts=1),
    )


def _failure(cause: BaseException | None, idle: Version | None) -> Finding:
    match cause:
        case ApplicationError(type="NotFoundError"):
            return Finding("worker", "unchecked", "this version of the worker cannot check itself")
        case TimeoutError(type=TimeoutType.SCHEDULE_TO_CLOSE | TimeoutType.SCHEDULE_TO_START):
            remedy = "It may be busy: try again, or see its log."
            if idle is not None:
                remedy += f" If it has stopped, give its work to the worker of {idle}: {advise_current(idle)}."
            return Finding("worker", "fault", f"it did not complete an activity within {SECONDS:.0f} s", remedy)
    root = _find_root(cause)
    if isinstance(root, ApplicationError) and root.type == NotDecrypted.__name__:
        return Finding("encryption", "fault", f"on the worker, {root.message}", SAME_KEYS)
    remedy = "Client and worker need the same [payloads] external, and the same [encryption] keys."
    return Finding("payloads", "fault", f"the worker could not do the check: {root}", remedy)


def _find_root(cause: BaseException | None) -> BaseException | None:
    """Return the first of the failures that led to this one: those after it say only what it prevented."""
    while isinstance(cause, FailureError) and cause.cause is not None:
        cause = cause.cause
    return cause


@dataclass(frozen=True)
class _Check:
    """A request, and the secret that is kept for it."""

    request: CheckWorker
    store: SecretDirectory | None

    @staticmethod
    def of(config: Config, *, embedded: bool) -> _Check:
        nonce, store = secrets.token_hex(16), keeper(config, embedded=embedded)
        request = CheckWorker(
            nonce=nonce,
            proofs={key.id: make_proof(key.secret.encode(), nonce) for key in _keys(config)},
            encryption={id_: make_proof(key, nonce) for id_, key in derive_check_keys(load_key_ring(config)).items()},
            secret=_keep(nonce, store),
            filler=secrets.token_hex(FILLER_BYTES // 2),
        )
        return _Check(request, store)

    def forget(self) -> None:
        """Remove the secret."""
        if self.store is not None and self.request.secret is not None:
            self.store.drop(self.request.secret)


def _keys(config: Config) -> Sequence[Key]:
    try:
        return config.answer_keys()
    except ConfigError:  # `check_machine` tells of it
        return ()


def _keep(value: str, store: SecretDirectory | None) -> str | None:
    """Keep a value and return its id; None if it cannot be kept, which `check_machine` tells."""
    if store is None:
        return None
    try:
        reference = reference_in(store.put(value))
    except ConfigError:
        return None
    return reference and reference.id


async def _check_clocks(
    handle: ActivityHandle[WorkerState], state: WorkerState, before: datetime, after: datetime
) -> list[Finding]:
    """Compare the clocks of this machine and of the worker with that of the server."""
    described = await handle.describe()
    client_offset = _outside(described.schedule_time, before, after)
    worker_offset = _outside(state.now, described.last_started_time, described.close_time)
    off = {"this machine's clock": client_offset, "the worker's clock": worker_offset}
    remedy = "Synchronize it by NTP: tokens, deadlines and claims depend on it."
    return [
        Finding("clock", "fault", f"{whose} differs from the server's by {abs(by.total_seconds()):.0f} s", remedy)
        for whose, by in off.items()
        if by > CLOCK
    ] or [Finding("clock", "ok", "this machine, the worker and the server agree")]


def _outside(moment: datetime, earliest: datetime | None, latest: datetime | None) -> timedelta:
    """Return how far a moment lies outside of a span; zero inside, or where the span is not known."""
    if earliest is None or latest is None:
        return timedelta(0)
    return max(earliest - moment, moment - latest, timedelta(0))


def _check_state(asked: _Check, state: WorkerState) -> list[Finding]:
    """Return what the worker said of itself."""
    request = asked.request
    findings = [Finding("worker", "fault", trouble, "See the worker's log.") for trouble in state.troubles]
    if state.filler == request.filler[::-1]:
        findings.append(Finding("payloads", "ok", "values over 16 kB reach the worker and come back"))
    findings += _compare_keys(request, state)
    if state.secret:
        findings.append(Finding("secrets", "ok", "the worker reads secrets that are kept here"))
    elif request.secret is not None:
        remedy = "Client and worker need the same [secrets] store and key."
        findings.append(Finding("secrets", "fault", "the worker cannot read a secret that was kept here", remedy))
    return findings


def _compare_keys(request: CheckWorker, state: WorkerState) -> list[Finding]:
    lacking = sorted(request.proofs.keys() - set(state.keys))
    findings: list[Finding] = []
    if state.keys and not request.proofs:
        message = f"the worker requires tokens of {', '.join(state.keys)}, and no key is set here"
        findings.append(Finding("keys", "fault", message, "Set [answers] as the worker has it."))
    elif lacking:
        message = f"the worker does not know the key {', '.join(lacking)}, so it accepts no token of it"
        findings.append(Finding("keys", "fault", message, "Give the worker the same [answers], and start it again."))
    if state.unproved:
        message = f"the key {', '.join(state.unproved)} has another value on the worker"
        findings.append(Finding("keys", "fault", message, "Set the same value for both."))
    return findings


def _compare_encryption(config: Config, state: WorkerState) -> list[Finding]:
    """Return what is wrong with keys that are not here, or have another value: open runs may have used them."""
    lacking = sorted({*state.encryption} - {*load_key_ring(config).ids})
    unlike = [
        Finding("encryption", "fault", f"the key {id_} has another value on the worker", SAME_KEYS)
        for id_ in state.unlike
    ]
    if not lacking:
        return unlike
    message = f"the worker has the key {', '.join(lacking)}, and it is not here: what was encrypted with it is not read"
    way = "Keep a key in [encryption] for as long as runs that used it."
    return [*unlike, Finding("encryption", "warning", message, way)]


async def _check_names(deployment: Deployment, queue: str) -> list[Finding]:
    """Have models, MCP servers and groups of the configuration looked up on the worker."""
    wanted = _list_wanted(deployment.config)
    if not wanted:
        return []
    try:
        missing = await look_up_names(deployment.client, queue, wanted, connect=True)
    except Unchecked as error:
        return [Finding("names", "unchecked", str(error))]
    remedy = "Give the worker the same holdfast.toml and variables, and start it again."
    return [Finding("names", "fault", entry.message, remedy) for entry in missing] or [
        Finding("names", "ok", "the worker can use each model, MCP server and group that is named here")
    ]


def _list_wanted(config: Config) -> list[RequiredName]:
    groups = {*config.groups, *(name for channel in config.notify.channels.values() for name in _groups(channel.to))}
    return [
        *(RequiredName(kind="model", name=name) for name in sorted(config.models)),
        *(RequiredName(kind="tool", name=f"mcp:{name}") for name in sorted(config.mcp)),
        *(RequiredName(kind="group", name=name) for name in sorted(groups)),
    ]


def _groups(people: Sequence[str] | None) -> list[str]:
    return [name.removeprefix(GROUP) for name in people or () if name.startswith(GROUP)]
