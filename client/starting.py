"""Start the workflow of a run, once what is sent has been checked. Used by `Runs.start`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from holdfast.blueprint.defaults import complete_input
from holdfast.client.answering import Answering
from holdfast.client.outgoing import check_outgoing
from holdfast.protocol.access import AccessPolicy, RunAccess
from holdfast.protocol.answers import Refusal
from holdfast.protocol.names import (
    ACCESS_ATTRIBUTE,
    ACCESS_MEMO,
    BLUEPRINT_ATTRIBUTE,
    LONGEST_RUN_ID,
    PIPELINE_WORKFLOW,
    join_run_id,
)
from holdfast.protocol.past_link import PAST_MEMO, PastLink
from holdfast.protocol.runs import Definition, HistoryLimits, LossPolicy, PipelineState, write_summary
from holdfast.protocol.size_limits import LARGEST_VALUE, SizeLimit, describe_excess
from holdfast.runtime.errors import SILENT_STATUSES, BadInput, RunExists, ServerError
from holdfast.runtime.payloads import stores_large

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint

BLUEPRINT_KEY = SearchAttributeKey.for_keyword(BLUEPRINT_ATTRIBUTE)
ACCESS_KEY = SearchAttributeKey.for_text(ACCESS_ATTRIBUTE)


def new_run_id(blueprint: Blueprint) -> str:
    """Return an id of the blueprint's name and a random suffix."""
    return join_run_id(blueprint.name, f"-{secrets.token_hex(4)}")


def check_start(blueprint: Blueprint, input: object, run: str, limit: SizeLimit) -> None:
    """Raise `BadInput` for an input or an id that cannot be used."""
    try:
        check_outgoing({"input": input}, limit)
    except Refusal as refusal:
        raise BadInput(f"the input cannot be sent: {refusal.message}") from None
    is_named = run.isprintable() and bool(run.strip()) and "/" not in run and not run.startswith("-")
    if not is_named or len(run.encode()) > LONGEST_RUN_ID:  # half a character is not printable, and has no bytes
        rule = "not blank, no '/', no '-' in front, and nothing that cannot be seen"
        raise BadInput(f"run id {run!r}: at most {LONGEST_RUN_ID} bytes, {rule}")
    _, details = complete_input(blueprint.inputs, input)
    if details:
        none = "; no input was given (on the command line: --input VALUE)" if input is None else ""
        raise BadInput(f"the input does not fit what {blueprint.name!r} wants: {details}{none}")


def choose_limits(client: Client, limits: HistoryLimits | None = None) -> HistoryLimits:
    """Return the limits of a run that a client starts: of one that stores large values outside none for a value."""
    limits = limits or HistoryLimits()
    stores = stores_large(client.data_converter.external_storage)
    largest = None if stores else limits.value or LARGEST_VALUE
    return limits.model_copy(update={"value": largest})


def define_run(
    client: Client,
    answering: Answering,
    blueprint: Blueprint,
    run: str,
    history_limits: HistoryLimits | None = None,
    loss_policy: LossPolicy | None = None,
    local_tools: Sequence[str] = (),
) -> Definition:
    """Return the definition of a run of this deployment; an empty id means the id of the run's workflow."""
    return Definition(
        blueprint=blueprint,
        run=run,
        guarded=bool(answering.keys),
        access=AccessPolicy.read(blueprint),
        size_limits=answering.limits,
        history_limits=choose_limits(client, history_limits),
        loss_policy=loss_policy or LossPolicy(),
        local_tools=list(local_tools),
    )


async def start_pipeline(
    client: Client,
    task_queue: str,
    definition: Definition,
    state: PipelineState,
    access: RunAccess,
    link: PastLink | None = None,
) -> None:
    """Start the run's workflow; `link` is what it goes on from.

    Raises `RunExists` if its id is taken, `BadInput` for more than a server takes, and `ServerError` if it does not
    answer.
    """
    _check_size(client, definition, state)
    try:
        await client.start_workflow(
            PIPELINE_WORKFLOW,
            args=[definition.model_copy(update={"run": ""}), state],  # the same for all: a worker shares it
            id=definition.run,
            task_queue=task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            static_summary=_summary(definition.blueprint),
            search_attributes=make_attributes(access),
            memo={ACCESS_MEMO: access, **({} if link is None else {PAST_MEMO: link})},
        )
    except WorkflowAlreadyStartedError:
        raise RunExists(definition.run) from None
    except RPCError as error:
        if error.status not in SILENT_STATUSES:
            raise
        text = f"the Temporal server does not answer ({error.message}): run {definition.run} may have started. "
        raise ServerError("server_error", f"{text}Start it again under this id: it starts once.", error) from error


def _check_size(client: Client, definition: Definition, state: PipelineState) -> None:
    if definition.history_limits.value is None:
        return
    payloads = client.data_converter.payload_converter.to_payloads([definition, state])
    if (count := sum(payload.ByteSize() for payload in payloads)) > LARGEST_VALUE:
        raise BadInput(describe_excess("the blueprint and the input have", count, LARGEST_VALUE, "give less"))


def make_attributes(access: RunAccess) -> TypedSearchAttributes:
    """Return the search attributes that a run is started with: they cost no event."""
    pairs = [SearchAttributePair(BLUEPRINT_KEY, access.blueprint), SearchAttributePair(ACCESS_KEY, access.words())]
    return TypedSearchAttributes(pairs)


def _summary(blueprint: Blueprint) -> str:
    text = f"{blueprint.name}: {blueprint.description}" if blueprint.description else blueprint.name
    return write_summary(text)
