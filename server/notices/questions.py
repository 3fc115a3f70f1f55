"""A question as the record has it: the form that was shown, who is asked, who has accepted; whether it is open."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, select, union_all

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.events import CLOSING_TYPES, QuestionAccepted, QuestionDelegated
from holdfast.server.record.entries import ASKED, CHANGED, ENDED, Recorded
from holdfast.server.record.store import RecordStore
from holdfast.server.record.tables import ENTRIES

KEPT = ("id", "kind", "message")
"""Fields of a question that its first event has, too."""


def read_question_states(store: RecordStore, entry: Recorded) -> tuple[JSONObject, JSONObject]:
    """Return the question of an entry: as it was with this entry, and as it is now. Blocks.

    Where its form was not seen, as it was closed before it could be read, it has what its first event says.
    """
    assert entry.question is not None, "an entry of a question names it"
    rows = _read_rows(store, entry)
    then = _fold(entry, [row for row in rows if row.id <= entry.id or row.type == CHANGED])
    return then, _fold(entry, rows)


def is_open(store: RecordStore, first_run: str, workflow: str, question: str) -> bool:
    """Return whether neither an end of a question nor that of its run has been recorded. Blocks.

    A run that is terminated or times out closes its questions without an event of theirs.
    """
    of_run = select(ENTRIES.c.id).where(ENTRIES.c.first_run == first_run)
    of_question = of_run.where(ENTRIES.c.workflow == workflow, ENTRIES.c.question == question)
    # Two queries, each with an index of its own: a run may have very many entries.
    ends = union_all(of_question.where(ENTRIES.c.type.in_(CLOSING_TYPES)), of_run.where(ENTRIES.c.type == ENDED))
    with store.engine.connect() as connection:
        return connection.execute(ends.limit(1)).first() is None


def _read_rows(store: RecordStore, entry: Recorded) -> Sequence[Row[*tuple[Any, ...]]]:
    of_question = (
        ENTRIES.c.first_run == entry.first_run,
        ENTRIES.c.workflow == entry.workflow,
        ENTRIES.c.type.like("question.%"),
        ENTRIES.c.question == entry.question,
    )
    query = select(ENTRIES.c.id, ENTRIES.c.type, ENTRIES.c.content).where(*of_question).order_by(ENTRIES.c.id)
    with store.engine.connect() as connection:
        return connection.execute(query).all()


def _fold(entry: Recorded, rows: Sequence[Row[*tuple[Any, ...]]]) -> JSONObject:
    place = {"id": entry.question, "address": entry.address, "owner": entry.workflow, "run": entry.run}
    question: JSONObject = {**place, "kind": "input", "message": "", "assignees": []}
    for row in rows:
        content = json.loads(row.content) if row.content is not None else {}
        if row.type == ASKED:
            question |= {name: value for name, value in content.get("data", {}).items() if name in KEPT}
        question = _apply(question, row.type, content)
    return question


def _apply(question: JSONObject, type_: str, content: JSONObject) -> JSONObject:
    """Return the question after one more entry of the record."""
    data = content.get("data", {})
    question = {**question, **(content.get("question") or {})}
    if isinstance(data.get("assignees"), list):
        question["assignees"] = data["assignees"]
    if type_ == QuestionAccepted.type and data.get("by"):
        question["accepted_by"] = [*question.get("accepted_by", []), data["by"]]
    if type_ == QuestionDelegated.type and data.get("by"):
        question["delegations"] = {**question.get("delegations", {}), data["by"]: data.get("to")}
    return question
