"""Rules of single steps that their grammar cannot express: exclusions between keys, and keys that need others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from holdfast.blueprint.check.agents import check_agent, check_tools
from holdfast.blueprint.check.findings import Findings, check_function, check_known, is_literal
from holdfast.blueprint.check.human import check_hitl
from holdfast.blueprint.check.plans import check_plan
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.expressions.texts import read_structure
from holdfast.blueprint.kinds import (
    Agent,
    AgenticLoop,
    AnyStep,
    Blueprint,
    Clarify,
    Conditional,
    Fallback,
    Finalize,
    HistoryManagement,
    Hitl,
    Loop,
    LoopBlock,
    Map,
    MapBlock,
    Operation,
    Parallel,
    PlainStep,
    Plan,
)
from holdfast.blueprint.kinds.step import BUILTINS

_PATH = re.compile(r"(context\.)?[^\s.\[\]{}]+(\.[^\s.\[\]{}]+)*")
_MAPPERS = {
    "initial_input_mapper": ("init",),
    "iteration_input_mapper": ("propagation",),
    "loop_output_mapper": ("output_template", "output"),
}


def check_step(step: AnyStep, path: str, blueprint: Blueprint, findings: Findings) -> None:
    if step.sink_to is not None:
        _check_path(step.sink_to, f"{path}.sink_to", findings)
    _check_update(step, path, findings)
    match step:
        case PlainStep():
            _check_plain(step, path, blueprint, findings)
        case Hitl():
            check_hitl(step, path, findings)
        case Conditional():
            _check_conditional(step, path, findings)
        case AgenticLoop():
            _check_planner(step, path, blueprint, findings)
        case Map():
            _check_map(step.map, f"{path}.map", findings)
        case Parallel():
            _check_parallel(step, path, findings)
        case Clarify():
            _check_clarify(step, path, blueprint, findings)
        case Plan():
            check_plan(step, path, blueprint, findings)
        case Loop():
            _check_loop(step.loop, f"{path}.loop", findings)


def _check_plain(step: PlainStep, path: str, blueprint: Blueprint, findings: Findings) -> None:
    if step.uses is not None and step.agent is not None:
        findings.add_key(f"{path}.uses", "conflict", "'uses' and 'agent' both say what runs", "keep one of them")
    if isinstance(step.agent, Agent):
        check_agent(step.agent, f"{path}.agent", blueprint, findings)
    if isinstance(step.agent, str) and not findings.was_repaired("agents", step.agent):
        check_known(step.agent, "agent", blueprint.agents, f"{path}.agent", findings)
    imported = step.uses is not None and step.uses.startswith("imports.")
    if step.uses is not None:
        _check_uses(step.uses, f"{path}.uses", blueprint, findings)
    if step.config is not None and not imported:
        message = "'config' belongs to steps that run an import"
        findings.add_key(f"{path}.config", "conflict", message, "write uses: imports.<alias>, or remove it")
    for source, target in () if step.config is None else step.config.outputs.items():
        _check_path(source, f"{path}.config.outputs.{source}", findings)
        _check_path(target, f"{path}.config.outputs.{source}", findings)
    _check_activity(step, path, findings)


def _check_planner(step: AgenticLoop, path: str, blueprint: Blueprint, findings: Findings) -> None:
    if isinstance(step.planner, str) and not findings.was_repaired("agents", step.planner):
        check_known(step.planner, "agent", blueprint.agents, f"{path}.planner", findings)
    planner = blueprint.agents.get(step.planner) if isinstance(step.planner, str) else step.planner
    if planner is not None and planner.tools:
        message = "a planner has no tools of its own: its turns are commands"
        findings.add_key(f"{path}.planner", "conflict", message, "list them in `registry`")
    if planner is not None and planner.human:
        message = "a planner has no `human`: it asks with its command ask_human"
        hint = "leave `human` out; who must agree to a tool is said in `registry` (approve) and `permissions`"
        findings.add_key(f"{path}.planner", "conflict", message, hint)
    if isinstance(step.planner, Agent):
        check_agent(step.planner, f"{path}.planner", blueprint, findings, planner=True)
    check_tools(step.registry, f"{path}.registry", blueprint, findings)


def _check_uses(uses: str, path: str, blueprint: Blueprint, findings: Findings) -> None:
    if uses.startswith("imports."):
        check_known(uses.removeprefix("imports."), "import", blueprint.imports, path, findings)
    elif ":" in uses:
        check_function(uses, path, findings)
    elif not uses.strip():
        findings.add(path, "bad_value", "'uses' is empty", "name a tool, a function, an agent or an import")


def _check_activity(step: PlainStep, path: str, findings: Findings) -> None:
    """Refuse `timeout` and `retry` in steps that do not run one activity."""
    if step.agent is not None:
        return
    if step.uses is None:
        reason = "this one only passes its input on"
    elif step.uses.startswith("imports."):
        reason = "an import runs many: give them to its steps"
    elif step.uses in BUILTINS:
        reason = f"{step.uses} runs in the workflow itself"
    else:
        return
    for key, value in (("timeout", step.timeout), ("retry", step.retry)):
        if value is not None:
            message = f"{key!r} belongs to steps that run one activity: {reason}"
            findings.add_key(f"{path}.{key}", "conflict", message, "remove it")


def _check_conditional(step: Conditional, path: str, findings: Findings) -> None:
    if step.condition_expression is None and step.condition is None:
        message = "'condition_expression' is missing: it chooses the branch"
        findings.add(f"{path}.condition_expression", "missing_key", message, "its value, as text, is the branch key")
    if step.condition_expression is not None and step.condition is not None:
        message = "'condition' and 'condition_expression' both choose the branch"
        findings.add_key(f"{path}.condition", "conflict", message, "keep one of them")
    if step.condition is not None and step.condition not in BUILTINS:
        check_function(step.condition, f"{path}.condition", findings)
    if not step.branches:
        message = "'branches' is empty: at least one is needed"
        findings.add(f"{path}.branches", "bad_value", message, "branches: {true: […], false: […]}")


def _check_update(step: AnyStep, path: str, findings: Findings) -> None:
    """Refuse `updates_context` where the step passes on a constant that is no object."""
    if not (step.updates_context and isinstance(step, PlainStep) and step.agent is None and step.uses is None):
        return
    if step.input is not None and not _may_be_object(step.input):
        message = "updates_context needs an object, but this step only passes on a constant that is none"
        findings.add(f"{path}.input", "bad_value", message, "write a mapping, such as input: {count: 1}")


def _check_operation(operation: Operation, path: str, findings: Findings) -> None:
    """Check where an operation of `init` or `state` writes, and that a merge gets an object."""
    write_path = f"{path}.{operation.verb}"
    _check_target(operation.write.target, f"{write_path}.target", findings)
    if operation.verb == "merge" and not _may_be_object(operation.write.value):
        message = "a merge needs an object: this value is neither a mapping nor a text that is a JSON object"
        findings.add(f"{write_path}.value", "bad_value", message, "write a mapping, such as value: {count: 1}")


def _may_be_object(template: Any) -> bool:
    match template:
        case str():
            return not is_literal(template) or isinstance(read_structure(template), dict)
        case _:
            return isinstance(template, dict)


def _check_map(block: MapBlock, path: str, findings: Findings) -> None:
    for index, operation in enumerate(block.init):
        _check_operation(operation, f"{path}.init[{index}]", findings)
    match block.finalize:
        case Finalize(output_template=None, output=None):
            message = "'finalize' is empty"
            findings.add(f"{path}.finalize", "bad_value", message, "add output_template or output, or remove it")
        case Finalize(output_template=str(), output=output) if output is not None:
            message = "'output' and 'output_template' both say what the map gives"
            findings.add_key(f"{path}.finalize.output", "conflict", message, "keep one of them")


def _check_parallel(step: Parallel, path: str, findings: Findings) -> None:
    for branch, paths in (step.field_mapping or {}).items():
        check_known(branch, "branch", step.branches, f"{path}.field_mapping.{branch}", findings)
        for index, target in enumerate(paths):
            _check_path(target, f"{path}.field_mapping.{branch}[{index}]", findings)


def _check_clarify(step: Clarify, path: str, blueprint: Blueprint, findings: Findings) -> None:
    if isinstance(step.agent, str) and not findings.was_repaired("agents", step.agent):
        check_known(step.agent, "agent", blueprint.agents, f"{path}.agent", findings)
    if isinstance(step.agent, Agent):
        check_agent(step.agent, f"{path}.agent", blueprint, findings)
    properties = step.facts.get("properties")
    if not isinstance(properties, dict) or not properties:
        message = "the schema names no facts: it needs `properties`"
        hint = "schema: {type: object, required: [audience], properties: {audience: {type: string}}}"
        findings.add(f"{path}.schema", "bad_value", message, hint)
        return
    required = step.facts.get("required")
    for name in required if isinstance(required, list) else []:
        if name not in properties:
            message = f"{name!r} is required, but none of the properties: it could never be asked"
            hint = did_you_mean(str(name), properties) or f"known facts: {', '.join(properties)}"
            findings.add(f"{path}.schema.required", "bad_value", message, hint)


def _check_loop(block: LoopBlock, path: str, findings: Findings) -> None:
    if block.max_loops is None and not block.has_exit:
        message = "'max_loops' is missing: it is required unless an exit is given"
        findings.add(f"{path}.max_loops", "missing_key", message, "add max_loops, exit_expression or stop_when")
    _exclusive(block, path, findings)
    for key in ("exit_condition", *_MAPPERS):
        function = block.model_dump(include={key})[key]
        if function is not None:
            check_function(function, f"{path}.{key}", findings)
    for key, operations in (("init", block.init), ("state", block.state)):
        for index, operation in enumerate(operations):
            _check_operation(operation, f"{path}.{key}[{index}]", findings)
    if block.output is not None and not isinstance(block.output, dict):
        message = "'output' must be an object of templates"
        findings.add(f"{path}.output", "bad_value", message, "a single template is `output_template`")
    _check_conversation(block, path, findings)
    if block.history_management is not None:
        _check_shortening(block.history_management, f"{path}.history_management", findings)


def _exclusive(block: LoopBlock, path: str, findings: Findings) -> None:
    present = {key for key in block.model_fields_set if block.model_dump(include={key})[key] is not None}
    if {"output", "output_template"} <= present:
        message = "'output' and 'output_template' both say what the loop gives"
        findings.add_key(f"{path}.output", "conflict", message, "keep one of them")
    if {"exit_expression", "exit_condition"} <= present:
        message = "'exit_expression' and 'exit_condition' both say when the loop ends"
        findings.add_key(f"{path}.exit_condition", "conflict", message, "keep one of them")
    for mapper, keys in _MAPPERS.items():
        for key in keys:
            if {mapper, key} <= present:
                message = f"{key!r} and {mapper!r} say the same thing"
                findings.add_key(f"{path}.{mapper}", "conflict", message, "keep one of them")


def _check_conversation(block: LoopBlock, path: str, findings: Findings) -> None:
    if block.ai_turn_source is not None:
        names = _body_names(block.body)
        if block.ai_turn_source not in names:
            hint = did_you_mean(block.ai_turn_source, names) or f"known here: last, {', '.join(names)}"
            message = f"no step {block.ai_turn_source!r} in the loop's body"
            findings.add(f"{path}.ai_turn_source", "unknown_name", message, hint)
    if block.conversation:
        return
    for key, value in (("ai_turn_source", block.ai_turn_source), ("history_management", block.history_management)):
        if value is not None:
            message = f"{key!r} belongs to loops with a conversation"
            findings.add_key(f"{path}.{key}", "conflict", message, "add conversation: true, or remove it")


def _check_shortening(rule: HistoryManagement, path: str, findings: Findings) -> None:
    wanted = {"truncate_turns": ("max_turns",), "truncate_tokens": ("max_tokens",)}.get(rule.strategy)
    if not any(rule.model_dump(include={key})[key] for key in wanted or ("max_turns", "max_tokens")):
        message = f"{rule.strategy} needs {' or '.join(map(repr, wanted or ('max_turns', 'max_tokens')))}"
        findings.add(f"{path}.strategy", "missing_key", message, "it says how much is kept")
    if rule.strategy == "summarize" and rule.agent is None:
        findings.add(f"{path}.agent", "missing_key", "'agent' is missing: it writes the summary", "name an agent")


def _body_names(steps: Iterable[AnyStep]) -> list[str]:
    """Return the names of a body's steps, those inside conditionals too, but not those of inner loops."""
    names = []
    for step in steps:
        names.append(step.name)
        if isinstance(step, Conditional):
            for block in step.blocks().values():
                names += _body_names(block.steps)
        if isinstance(step.on_error, Fallback):
            names += _body_names([step.on_error.fallback])
    return names


def _check_path(text: str, path: str, findings: Findings) -> None:
    if not _PATH.fullmatch(text) or text in ("context", "context."):
        message = f"{text[:60]!r} is not a path in the context"
        findings.add(path, "bad_value", message, "write keys with dots between them, such as stats.total")


def _check_target(target: str, path: str, findings: Findings) -> None:
    if not target.startswith("context."):
        message = f"the target {target[:60]!r} is outside the context"
        findings.add(path, "bad_target", message, f"did you mean {'context.' + target[:60]!r}?")
    else:
        _check_path(target, path, findings)
