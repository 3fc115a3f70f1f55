"""Read the whole of a long answer, for the page of its question: an event has only its beginning."""

from __future__ import annotations

import logging
from dataclasses import replace

from temporalio.client import Client
from temporalio.service import RPCError

from holdfast.client.earlier_answers import EarlierReply
from holdfast.client.history import read_chain_answers
from holdfast.client.tree import UnknownRun
from holdfast.client.whole_answers import find_answer
from holdfast.protocol.events import is_beginning
from holdfast.runtime.errors import ServerUnreachable
from holdfast.server.record.record import Record

log = logging.getLogger(__name__)


async def complete_reply(client: Client, record: Record | None, run: str, reply: EarlierReply) -> EarlierReply:
    """Return a reply with its content and its comment whole; what neither Temporal nor the record has stays cut.

    Args:
        client: The connection to Temporal, whose history has the answer as it was given.
        record: The record, where one is kept: Temporal may have deleted the run.
        run: The id of the run.
        reply: The reply as its event tells it.
    """
    noted = reply.data
    if not (is_beginning(noted.content) or is_beginning(noted.comment)):
        return reply
    whole = {}
    try:
        answer = find_answer(reply.address, noted, await read_chain_answers(client, reply.workflow))
        whole = {} if answer is None else {"content": answer.content, "comment": answer.comment}
    except (RPCError, ServerUnreachable) as error:
        log.info("the answer to %s is read from the record: %s", noted.id, error)
    if not whole and record is not None:
        whole = await _read_recorded(record, run, reply)
    return replace(reply, data=noted.model_copy(update=whole))


async def _read_recorded(record: Record, run: str, reply: EarlierReply) -> dict[str, object]:
    try:
        entries = await record.entries(run)
    except UnknownRun:
        return {}
    found = (entry for entry in entries if entry.type == reply.data.type and entry.question == reply.data.id)
    return next((dict(entry.answer) for entry in found if entry.at == reply.at), {})
