"""Read the whole of a long answer, for the page of its question: an event has only its beginning."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from temporalio.client import Client
from temporalio.service import RPCError

from holdfast.client.earlier_answers import EarlierReply
from holdfast.client.history import AnswerRecord, read_chain_answers
from holdfast.client.tree import UnknownRun
from holdfast.client.whole_answers import find_answer
from holdfast.protocol.events import is_beginning
from holdfast.runtime.errors import ServerUnreachable
from holdfast.server.record.entries import Recorded
from holdfast.server.record.record import Record

log = logging.getLogger(__name__)


async def complete_reply(client: Client, record: Record | None, run: str, reply: EarlierReply) -> EarlierReply:
    """Return a reply with its content and its comment whole, and so those before it; what nothing has stays cut.

    Args:
        client: The connection to Temporal, whose history has the answer as it was given.
        record: The record, where one is kept: Temporal may have deleted the run.
        run: The id of the run.
        reply: The reply as its event tells it.
    """
    cut = [one for one in (reply, *reply.accepted) if _is_cut(one)]
    if not cut:
        return reply
    given: Sequence[AnswerRecord] = ()
    try:
        given = await read_chain_answers(client, reply.workflow)
    except (RPCError, ServerUnreachable) as error:
        log.info("the answer to %s is read from the record: %s", reply.data.id, error)
    is_missing = any(find_answer(one.address, one.data, given) is None for one in cut)
    entries = await _read_recorded(record, run) if is_missing and record is not None else ()
    whole = [_complete(one, given, entries) for one in reply.accepted]
    return replace(_complete(reply, given, entries), accepted=whole)


def _is_cut(reply: EarlierReply) -> bool:
    return is_beginning(reply.data.content) or is_beginning(reply.data.comment)


def _complete(reply: EarlierReply, given: Sequence[AnswerRecord], entries: Sequence[Recorded]) -> EarlierReply:
    """Return a reply with what it gave, from the answers of a history, or else from the record."""
    if not _is_cut(reply):
        return reply
    noted, whole = reply.data, dict[str, object]()
    if (answer := find_answer(reply.address, noted, given)) is not None:
        whole = {"content": answer.content, "comment": answer.comment}
    else:
        found = (
            entry for entry in entries if (entry.type, entry.question, entry.at) == (noted.type, noted.id, reply.at)
        )
        whole = next((dict(entry.answer) for entry in found), whole)
    return replace(reply, data=noted.model_copy(update=whole))


async def _read_recorded(record: Record, run: str) -> Sequence[Recorded]:
    try:
        return await record.entries(run)
    except UnknownRun:
        return ()
