"""Durable agent pipelines that stop for people, on Temporal: the public names of Holdfast.

Tool authors import `tool`, `Interrupt`, `resumed`, `BadAnswer`, `level`, `report_usage` and the question kinds;
programs import `ask`, `connect`, `Runs`, `Answer`; authors of their own workflows import `HumanInTheLoop`, those with
clients and workers of their own `Plugin`. What is not in `__all__` is an implementation detail.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.activities.interrupt import BadAnswer, Interrupt, level, resumed
    from holdfast.activities.registry import agent, tool
    from holdfast.activities.reported_usage import report_usage
    from holdfast.activities.secrets import secret
    from holdfast.blueprint.errors import BlueprintError, Problem
    from holdfast.blueprint.kinds import Blueprint
    from holdfast.blueprint.load import load, loads
    from holdfast.blueprint.questions import (
        Clarification,
        Decision,
        Hold,
        Input,
        Permission,
        QuestionKind,
        Review,
        question_kind,
    )
    from holdfast.client.answering import Answering
    from holdfast.client.runs import Runs
    from holdfast.client.single_question import AskCancelled, AskDeclined, AskError, AskExpired, ask
    from holdfast.plugin import Plugin
    from holdfast.protocol.answers import Answer, Receipt, Refusal
    from holdfast.protocol.questions import Question
    from holdfast.runtime.connection import connect
    from holdfast.runtime.secrets import keeper
    from holdfast.workflows.human import HumanInTheLoop

_MODULES = {
    "holdfast.activities.interrupt": ("BadAnswer", "Interrupt", "level", "resumed"),
    "holdfast.activities.registry": ("agent", "tool"),
    "holdfast.activities.reported_usage": ("report_usage",),
    "holdfast.activities.secrets": ("secret",),
    "holdfast.blueprint.errors": ("BlueprintError", "Problem"),
    "holdfast.blueprint.kinds": ("Blueprint",),
    "holdfast.blueprint.load": ("load", "loads"),
    "holdfast.blueprint.questions": ("Clarification", "Decision", "Hold", "Input", "Permission", "Review"),
    "holdfast.blueprint.questions.kind": ("QuestionKind", "question_kind"),
    "holdfast.client.answering": ("Answering",),
    "holdfast.runtime.connection": ("connect",),
    "holdfast.client.runs": ("Runs",),
    "holdfast.client.single_question": (
        "AskCancelled",
        "AskDeclined",
        "AskExpired",
        "AskError",
        "ask",
    ),
    "holdfast.runtime.secrets": ("keeper",),
    "holdfast.protocol.answers": ("Answer", "Receipt", "Refusal"),
    "holdfast.protocol.questions": ("Question",),
    "holdfast.plugin": ("Plugin",),
    "holdfast.workflows.human": ("HumanInTheLoop",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Answer",
    "Answering",
    "AskCancelled",
    "AskDeclined",
    "AskError",
    "AskExpired",
    "BadAnswer",
    "Blueprint",
    "BlueprintError",
    "Clarification",
    "Decision",
    "Hold",
    "HumanInTheLoop",
    "Input",
    "Interrupt",
    "Permission",
    "Plugin",
    "Problem",
    "Question",
    "QuestionKind",
    "Receipt",
    "Refusal",
    "Review",
    "Runs",
    "agent",
    "ask",
    "connect",
    "keeper",
    "level",
    "load",
    "loads",
    "question_kind",
    "report_usage",
    "resumed",
    "secret",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `holdfast --help` must not wait for temporalio to load."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    value = importlib.import_module(_MODULE_OF[name]).__dict__[name]
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
