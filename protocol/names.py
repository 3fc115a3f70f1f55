"""The names of what a run has on Temporal: workflows, messages, search attributes, memos; and their sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

TASK_QUEUE = "holdfast"
PIPELINE_WORKFLOW = "Pipeline"
LOOP_WORKFLOW = "Loop"
AGENT_WORKFLOW = "Agent"
MAP_WORKFLOW = "Map"
CLARIFY_WORKFLOW = "Clarify"
PLAN_WORKFLOW = "Plan"
PLAN_LOOP_WORKFLOW = "PlanLoop"
DRIVEN_PLAN_WORKFLOW = "DrivenPlan"

ANSWER = "answer"
PAUSE = "pause"
RESUME = "resume"
TELL = "tell"
VIEW = "view"
EVENTS = "events"
CONTEXT = "context"
SHOWN = "shown"
UNDOS = "undos"
SLOTS_FREED = "slots_freed"
"""Signal from a page of a map to the workflow that started it: `FreedSlots`."""
SLOTS_GRANTED = "slots_granted"
"""Signal from a workflow of a map to a page: `GrantedSlots`."""
PLAN = "plan"
"""The query for a plan's progress, and the update that changes its remaining steps."""
PLAN_OUTPUT = "plan_output"
"""The query for the output of a plan that failed or was cancelled."""

BLUEPRINT_ATTRIBUTE = "HoldfastBlueprint"
WAITING_ATTRIBUTE = "HoldfastWaitingFor"
"""The assignees of the open questions of a workflow, `anyone`, or `many`; see `people.awaited`."""
QUESTIONS_ATTRIBUTE = "HoldfastQuestions"
"""The ids of its open questions, or `many`."""
SINCE_ATTRIBUTE = "HoldfastSince"
"""The time at which the oldest of them was asked."""
EVENTS_ATTRIBUTE = "HoldfastEvents"
"""The events of other systems that the steps of a workflow wait for, or `many`; see `incoming.make_label`."""
DEADLINE_ATTRIBUTE = "HoldfastDeadline"
"""The nearest of their deadlines; absent where none has one."""
ACCESS_ATTRIBUTE = "HoldfastAccess"
"""Words that find whoever may see the run; see `RunAccess.words`. Set when a workflow starts, and never changed."""
ATTRIBUTE_TYPES: Mapping[str, Literal["Keyword", "KeywordList", "Datetime", "Text"]] = {
    BLUEPRINT_ATTRIBUTE: "Keyword",
    WAITING_ATTRIBUTE: "KeywordList",
    QUESTIONS_ATTRIBUTE: "KeywordList",
    EVENTS_ATTRIBUTE: "KeywordList",
    SINCE_ATTRIBUTE: "Datetime",
    DEADLINE_ATTRIBUTE: "Datetime",
    ACCESS_ATTRIBUTE: "Text",
}
"""The search attributes that a namespace needs, with their types. SQL visibility has three of each but keywords."""
HOLD_MARK = " (on hold)"
"""The end of the identity of a worker on hold: clients see it among the pollers of a task queue."""
PAUSED_MEMO = "holdfastPaused"
"""In the memo of a run while it is paused; a memo comes with a list of workflows and needs no registration."""

ACCESS_MEMO = "holdfastAccess"
"""In the memo of a run: its `RunAccess`."""

STATE_MEMO = "holdfastState"
"""In the memo of an author's own workflow that has continued as new: its `OwnState`."""

CLEANING_MEMO = "holdfast_cleaning_up"
"""In the memo of a child that does what is done at an end in any case: a cancel of its run leaves it alone."""

OWN_MEMO = "holdfastRun"
"""In the memo of a workflow that a step has started and that is no part of the run: the run's id."""
PLACE_MEMO = "holdfastAddress"
"""Beside it: the address of the step."""

PAGE_BYTES = 12 * 1024
"""Size of a page of a view or of events: below the 16 KiB from which payloads and query results are stored outside."""
LONGEST_RUN_ID = 100
LONGEST_SUMMARY = 200
"""Bytes."""


def join_run_id(name: str, ending: str) -> str:
    """Return the id of a run: a name, shortened where it has to be, and an ending of ASCII that is kept whole.

    >>> join_run_id("brief", "-0123abcd"), len(join_run_id("ä" * 100, "~2").encode())
    ('brief-0123abcd', 100)
    """
    return name.encode()[: LONGEST_RUN_ID - len(ending)].decode(errors="ignore") + ending
