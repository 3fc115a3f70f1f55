"""Keys that generated steps and agents have now and then, beside those that make them what they are.

Each entry is a set of keys that fits every step of its kind, and that leaves what a run gives independent of the order
of things. `NAME` stands for the name of the step. What is never generated stands in `LEFT_OUT`, with its reason;
`tests/drills/test_simulate.py` fails for a key of the language that is in neither.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
NAME = "NAME"
NOBODY = "Nobody answers"
"""How the message of a question begins that runs into its deadline."""
_FORM = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
_RETRY = {"attempts": 3, "backoff": "1s", "factor": 2, "max": "10s"}
_LIMITS = {"model_calls": 10_000, "tokens": 10_000_000, "cost_usd": 1_000, "seconds": 10_000_000, "steps": 10_000}
_EVERYBODY = ["user:ana", "user:ben", "user:sue"]

COMMON: tuple[Json, ...] = (
    {"when": "input == 'tea'"},
    {"when": "1 > 2"},
    {"output_schema": {"description": "Anything."}},
    {"interrupt_after": True},
    {"interrupt_before": True},
)
"""Of every kind."""
ORDINARY: tuple[Json, ...] = ({"input": "{{ input }}"}, {"input_schema": {"description": "Anything."}})
"""Of every kind but those that read them otherwise."""
TO_FAIL: tuple[Json, ...] = (
    {"on_error": "continue"},
    {"on_error": "ask"},
    {"on_error": {"fallback": {"name": "NAMEfallback", "input": "instead"}}},
)
"""Of the kinds that have no steps inside: how far what stands beside a failure has come is a matter of the schedule."""
OF_KINDS: dict[str, tuple[Json, ...]] = {
    "loop": (
        {"loop": {"exit_expression": "iteration >= 2"}},
        {"loop": {"output_template": "{{ iteration }}"}},
        {"loop": {"output": {"rounds": "{{ iteration }}"}}},
        {"loop": {"propagation": {"next_input": "{{ iteration }}"}}},
        {"loop": {"deadline": "100d", "on_deadline": "fail"}},
        {
            "loop": {
                "init": [{"set": {"target": "context.NAMElist", "value": []}}],
                "state": [
                    {"append": {"target": "context.NAMElist", "value": "{{ iteration }}"}},
                    {"merge": {"target": "context.NAMEobject", "value": {"n": "{{ iteration }}"}}},
                ],
            }
        },
    ),
    "map": (
        {"map": {"on_item_error": "continue"}},
        {"map": {"label": "{{ item }}"}},
        {"map": {"finalize": {"output_template": "{{ previous_step }}"}}},
        {"map": {"finalize": {"output": {"all": "{{ previous_step }}"}}}},
        {"map": {"init": [{"set": {"target": "context.NAMEbegun", "value": "{{ input }}"}}]}},
    ),
    "parallel": (
        {"merge_strategy": "overwrite"},
        {"merge_strategy": "no_merge"},
        {"on_branch_failure": "ignore"},
        {"context_include_keys": ["NAME"]},
        {"field_mapping": {"x": ["NAME"]}},
    ),
    "conditional": ({"default_branch": [{"name": "NAMEother", "input": "other"}]},),
    "clarify": (
        {"known": {"city": "Lyon"}},
        {"max_questions": 5, "on_max_questions": "finish"},
        {"assignees": _EVERYBODY},
    ),
    "cache": ({"key": "{{ input }}"},),
    "workflow": ({"timeout": "9d"}, {"retry": _RETRY}),
    "wait": ({"schema": {"type": "string"}},),
    "agentic_loop": (
        {"max_loops": 5},
        {"output_template": "{{ output }}"},
        {"timeout": "1h", "retry": _RETRY},
        {"assignees": _EVERYBODY},
    ),
    "plan": (
        {"assignees": _EVERYBODY},
        {"plan": {"max_parallel": 2}},
        {"plan": {"fail_fast": True}},
        {"plan": {"language": "fr"}},
        {"plan": {"notes": {"version": 1}}},
        {"plan": {"max_revisions": 2}},
    ),
}
OF_QUESTIONS: tuple[Json, ...] = (
    {"on_decline": "continue"},
    {"assignees": _EVERYBODY},
    {"not_by": ["user:eve"]},
    {"quorum": "{{ 1 + 1 }}"},
    {"notify": False},
    {"attachments": [{"name": "note.txt", "text": "A note.", "type": "text/plain"}]},
    {"attachments": [{"name": "note.bin", "data": "AAECAw=="}]},
)
OF_CALLS: tuple[Json, ...] = ({"timeout": "1h"}, {"retry": _RETRY}, {"assignees": _EVERYBODY})
"""Of a step that calls a tool or an agent."""
OF_TOOL_STEPS: tuple[Json, ...] = (
    {"idempotent": True},
    {"retry": _RETRY},
    {"tool_errors": {"authorization": "ask", "missing": "fail", "bad_arguments": {"retry": 2}, "timeout": "fail"}},
    {"tool_errors": {"business": {"retry": 1}, "other": "fail", "total": 3}},
)
OF_AGENTS: tuple[Json, ...] = (
    {"instructions": "Be brief.", "description": "Writes."},
    {"output_schema": _FORM, "output_mode": "native"},
    {"settings": {"temperature": 0.2}, "prompt_cache": True},
    {"timeout": "1h", "retry": _RETRY},
    {"limits": _LIMITS | {"on_limit": "fail"}},
    {"fallback_models": ["other"]},
)
OF_TURNS: tuple[Json, ...] = (
    {"max_turns": 9, "max_tool_calls_per_turn": 5, "max_tool_calls": 20},
    {"permissions": [{"tool": "p*", "target": "*", "action": "ask"}]},
    {"permissions": [{"tool": "p*", "action": "deny"}]},
    {"history_management": {"strategy": "truncate_turns", "max_turns": 1, "keep_turns": 1}},
    {"history_management": {"strategy": "truncate_results", "max_tokens": 100}},
    {"history_management": {"strategy": "summarize", "max_turns": 1, "keep_turns": 1}},
    {"tool_errors": {"other": "fail", "total": 5}},
)
"""Of an agent that takes turns."""
OF_TOOLS: tuple[Json, ...] = ({"review": True}, {"risk": "low"}, {"timeout": "1h"}, {"retry": _RETRY})
"""Of the tools of an agent."""
OF_UNDOS: tuple[Json, ...] = ({"timeout": "1h"}, {"retry": _RETRY})
OF_PLAN_QUESTIONS: tuple[Json, ...] = (
    {"options": [{"text": "Monday", "type": 2}, {"text": "Tuesday", "type": 2}]},
    {"condition": "RESULT_FROM_list is not empty"},
    {"assignees": _EVERYBODY},
    {
        "instruction": f"{NOBODY} this.",
        **{"timeout": "2h", "on_timeout": "default", "default": "Monday"},
    },
)
OF_PLAN_STEPS: tuple[Json, ...] = (
    {"title": "A title", "service": "calendar", "notes": {"priority": "high"}},
    {"expected_result": "One", "display_result": True},
    {"optional": True},
    {"agent": {"model": "simulated"}},
    {"arguments": {"what": "RESULT_FROM_list"}},
)
PLAN_STEPS: tuple[Json, ...] = ({"id": "walk", "instruction": "Walk to CURRENT_ITEM", "loopover": ["x", "y"]},)
OF_PLAN_LOOPS: tuple[Json, ...] = (
    {"id": "each", "max_parallel": 2},
    {"on_item_error": "fail", "max_items": 10},
    {"dependencies": ["list"], "notes": {"n": 1}},
    {"condition": "RESULT_FROM_list is not empty"},
)
OF_DOCUMENTS: tuple[Json, ...] = (
    {"version": "0.1", "description": "A simulated one."},
    {"inputs": {"type": "string"}},
    {"context_schema": {"type": "object"}},
    {"limits": _LIMITS},
    {"output": "{{ previous_step }}"},
    {"deadline": "300d", "on_deadline": "fail"},
)
"""Of the whole blueprint."""
_PEOPLE = "who may answer is decided in validators, which no schedule changes"
_FUNCTIONS = "functions and objects of an author's package: calls of activities like those of tools"
_MODELS = "what a model is sent does not matter to the simulated one"
_TURNS = "more turns of the same kind"
LEFT_OUT = {
    "Access": _PEOPLE,
    "Blueprint.access": _PEOPLE,
    "Blueprint.imports": "another file; its steps run in the workflow of the step as those of a block do",
    "ImportConfig": "see Blueprint.imports",
    "PlainStep.config": "see Blueprint.imports",
    "Agent.source": _FUNCTIONS,
    "Agent.deps": _FUNCTIONS,
    "AgentTool.idempotent": "the tools say it themselves",
    "AskForAccess": "a question of a tool that was refused access; on_error: ask is like it",
    "AgentHistory.agent": "the agent's own model summarises",
    "ModelAttachment": _MODELS,
    "PlainStep.attachments": _MODELS,
    "AttachmentSource.file": "read on the worker, by a call like any other",
    "Hitl.escalate": _PEOPLE,
    "Escalation": _PEOPLE,
    "Hitl.proof": _PEOPLE,
    "Hitl.verify": "a call of a model, and the question once more",
    "Verification": "see Hitl.verify",
    "KindDefinition": _FUNCTIONS,
    "Option": "words for people, beside id and label",
    "Conditional.condition": _FUNCTIONS,
    "LoopBlock.exit_condition": _FUNCTIONS,
    "LoopBlock.initial_input_mapper": _FUNCTIONS,
    "LoopBlock.iteration_input_mapper": _FUNCTIONS,
    "LoopBlock.loop_output_mapper": _FUNCTIONS,
    "LoopBlock.conversation": _MODELS,
    "LoopBlock.ai_turn_source": _MODELS,
    "LoopBlock.history_management": _MODELS,
    "HistoryManagement": _MODELS,
    "BlockStep.max_parallel": "what stands beside a failure, and is undone, would be a matter of the schedule",
    "PlanBody.done": "what an earlier plan did: a value, as steps see it",
    "PlanStep.start_step": "another way to write a loop",
    "WorkflowBlock.args": "other arguments of the same workflow",
    "WorkflowBlock.id": "one workflow of an id at a time: of two that want it the order of things tells",
    "WorkflowBlock.signal": "a signal to a workflow that is not ours, and gives nothing back",
}
"""What is never generated: keys, or whole classes of the language, each with its reason."""
