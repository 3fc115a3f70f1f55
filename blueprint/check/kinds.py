"""Rules of single steps that their grammar cannot say: what excludes what, what needs what."""

from __future__ import annotations

import re
from collections.abc import Iterable

from blueprint.check.agents import check_agent, check_tools
from blueprint.check.findings import Findings, check_function, known
from blueprint.check.human import check_hitl
from blueprint.check.plans import check_plan
from blueprint.expressions.error import did_you_mean
from blueprint.grammar import (
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
    Parallel,
    PlainStep,
    Plan,
)
from blueprint.grammar.steps import BUILTINS

_PATH = re.compile(r"(context\.)?[^\s.\[\]{}]+(\.[^\s.\[\]{}]+)*")
_MAPPERS = {
    "initial_input_mapper": ("init",),
    "iteration_input_mapper": ("propagation",),
    "loop_output_mapper": ("output_template", "output"),
}


def check_step(step: AnyStep, path: str, blueprint: Blueprint, findings: Findings) -> None:
    if step.sink_to is not None:
        _check_path(step.sink_to, f"{path}.sink_to", findings)
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
    if isinstance(step.agent, str) and not findings.was_mended("agents", step.agent):
        known(step.agent, "agent", blueprint.agents, f"{path}.agent", findings)
    imported = step.uses is not None and step.uses.startswith("imports.")
    if step.uses is not None:
        _check_uses(step.uses, f"{path}.uses", blueprint, findings)
    if step.config is not None and not imported:
        told = "'config' belongs to steps that run an import"
        findings.add_key(f"{path}.config", "conflict", told, "write uses: imports.<alias>, or remove it")
    for source, target in () if step.config is None else step.config.outputs.items():
        _check_path(source, f"{path}.config.outputs.{source}", findings)
        _check_path(target, f"{path}.config.outputs.{source}", findings)
    _check_activity(step, path, findings)


def _check_planner(step: AgenticLoop, path: str, blueprint: Blueprint, findings: Findings) -> None:
    if isinstance(step.planner, str) and not findings.was_mended("agents", step.planner):
        known(step.planner, "agent", blueprint.agents, f"{path}.planner", findings)
    planner = blueprint.agents.get(step.planner) if isinstance(step.planner, str) else step.planner
    if planner is not None and planner.tools:
        told = "a planner has no tools of its own: its turns are commands"
        findings.add_key(f"{path}.planner", "conflict", told, "list them in `registry`")
    if planner is not None and planner.human:
        told = "a planner has no `human`: it asks with its command ask_human"
        hint = "leave `human` out; who must agree to a tool is said in `registry` (approve) and `permissions`"
        findings.add_key(f"{path}.planner", "conflict", told, hint)
    if isinstance(step.planner, Agent):
        check_agent(step.planner, f"{path}.planner", blueprint, findings, planner=True)
    check_tools(step.registry, f"{path}.registry", blueprint, findings)


def _check_uses(uses: str, path: str, blueprint: Blueprint, findings: Findings) -> None:
    if uses.startswith("imports."):
        known(uses.removeprefix("imports."), "import", blueprint.imports, path, findings)
    elif ":" in uses:
        check_function(uses, path, findings)
    elif not uses.strip():
        findings.add(path, "bad_value", "'uses' is empty", "name a tool, a function, an agent or an import")


def _check_activity(step: PlainStep, path: str, findings: Findings) -> None:
    """`timeout` and `retry` belong to steps that run one activity."""
    if step.agent is not None:
        return
    if step.uses is None:
        what = "this one only passes its input on"
    elif step.uses.startswith("imports."):
        what = "an import runs many: give them to its steps"
    elif step.uses in BUILTINS:
        what = f"{step.uses} runs in the workflow itself"
    else:
        return
    for key, value in (("timeout", step.timeout), ("retry", step.retry)):
        if value is not None:
            told = f"{key!r} belongs to steps that run one activity: {what}"
            findings.add_key(f"{path}.{key}", "conflict", told, "remove it")


def _check_conditional(step: Conditional, path: str, findings: Findings) -> None:
    if step.condition_expression is None and step.condition is None:
        told = "'condition_expression' is missing: it chooses the branch"
        findings.add(f"{path}.condition_expression", "missing_key", told, "its value, as text, is the branch key")
    if step.condition_expression is not None and step.condition is not None:
        told = "'condition' and 'condition_expression' both choose the branch"
        findings.add_key(f"{path}.condition", "conflict", told, "keep one of them")
    if step.condition is not None:
        check_function(step.condition, f"{path}.condition", findings)
    if not step.branches:
        told = "'branches' is empty: at least one is needed"
        findings.add(f"{path}.branches", "bad_value", told, "branches: {true: […], false: […]}")


def _check_map(block: MapBlock, path: str, findings: Findings) -> None:
    for index, operation in enumerate(block.init):
        _check_target(operation.write.target, f"{path}.init[{index}].{operation.verb}.target", findings)
    match block.finalize:
        case Finalize(output_template=None, output=None):
            told = "'finalize' is empty"
            findings.add(f"{path}.finalize", "bad_value", told, "add output_template or output, or remove it")
        case Finalize(output_template=str(), output=output) if output is not None:
            told = "'output' and 'output_template' both say what the map gives"
            findings.add_key(f"{path}.finalize.output", "conflict", told, "keep one of them")


def _check_parallel(step: Parallel, path: str, findings: Findings) -> None:
    for branch, paths in (step.field_mapping or {}).items():
        known(branch, "branch", step.branches, f"{path}.field_mapping.{branch}", findings)
        for index, one in enumerate(paths):
            _check_path(one, f"{path}.field_mapping.{branch}[{index}]", findings)


def _check_clarify(step: Clarify, path: str, blueprint: Blueprint, findings: Findings) -> None:
    if isinstance(step.agent, str) and not findings.was_mended("agents", step.agent):
        known(step.agent, "agent", blueprint.agents, f"{path}.agent", findings)
    if isinstance(step.agent, Agent):
        check_agent(step.agent, f"{path}.agent", blueprint, findings)
    properties = step.facts.get("properties")
    if not isinstance(properties, dict) or not properties:
        told = "the schema names no facts: it needs `properties`"
        hint = "schema: {type: object, required: [audience], properties: {audience: {type: string}}}"
        findings.add(f"{path}.schema", "bad_value", told, hint)
        return
    required = step.facts.get("required")
    for name in required if isinstance(required, list) else []:
        if name not in properties:
            told = f"{name!r} is required, but none of the properties: it could never be asked"
            hint = did_you_mean(str(name), properties) or f"known facts: {', '.join(properties)}"
            findings.add(f"{path}.schema.required", "bad_value", told, hint)


def _check_loop(block: LoopBlock, path: str, findings: Findings) -> None:
    if block.max_loops is None and not block.has_exit:
        told = "'max_loops' is missing: it is required unless an exit is given"
        findings.add(f"{path}.max_loops", "missing_key", told, "add max_loops, exit_expression or stop_when")
    _exclusive(block, path, findings)
    for key in ("exit_condition", *_MAPPERS):
        function = block.model_dump(include={key})[key]
        if function is not None:
            check_function(function, f"{path}.{key}", findings)
    for where, operations in (("init", block.init), ("state", block.state)):
        for index, operation in enumerate(operations):
            target = f"{path}.{where}[{index}].{operation.verb}.target"
            _check_target(operation.write.target, target, findings)
    if block.output is not None and not isinstance(block.output, dict):
        told = "'output' must be an object of templates"
        findings.add(f"{path}.output", "bad_value", told, "a single template is `output_template`")
    _check_conversation(block, path, findings)
    if block.history_management is not None:
        _check_shortening(block.history_management, f"{path}.history_management", findings)


def _exclusive(block: LoopBlock, path: str, findings: Findings) -> None:
    written = {key for key in block.model_fields_set if block.model_dump(include={key})[key] is not None}
    if {"output", "output_template"} <= written:
        told = "'output' and 'output_template' both say what the loop gives"
        findings.add_key(f"{path}.output", "conflict", told, "keep one of them")
    if {"exit_expression", "exit_condition"} <= written:
        told = "'exit_expression' and 'exit_condition' both say when the loop ends"
        findings.add_key(f"{path}.exit_condition", "conflict", told, "keep one of them")
    for mapper, keys in _MAPPERS.items():
        for key in keys:
            if {mapper, key} <= written:
                told = f"{key!r} and {mapper!r} say the same thing"
                findings.add_key(f"{path}.{mapper}", "conflict", told, "keep one of them")


def _check_conversation(block: LoopBlock, path: str, findings: Findings) -> None:
    if block.ai_turn_source is not None:
        known = _body_names(block.body)
        if block.ai_turn_source not in known:
            hint = did_you_mean(block.ai_turn_source, known) or f"known here: last, {', '.join(known)}"
            told = f"no step {block.ai_turn_source!r} in the loop's body"
            findings.add(f"{path}.ai_turn_source", "unknown_name", told, hint)
    if block.conversation:
        return
    for key, value in (("ai_turn_source", block.ai_turn_source), ("history_management", block.history_management)):
        if value is not None:
            told = f"{key!r} belongs to loops with a conversation"
            findings.add_key(f"{path}.{key}", "conflict", told, "add conversation: true, or remove it")


def _check_shortening(rule: HistoryManagement, path: str, findings: Findings) -> None:
    wanted = {"truncate_turns": ("max_turns",), "truncate_tokens": ("max_tokens",)}.get(rule.strategy)
    if not any(rule.model_dump(include={key})[key] for key in wanted or ("max_turns", "max_tokens")):
        told = f"{rule.strategy} needs {' or '.join(map(repr, wanted or ('max_turns', 'max_tokens')))}"
        findings.add(f"{path}.strategy", "missing_key", told, "it says how much is kept")
    if rule.strategy == "summarize" and rule.agent is None:
        findings.add(f"{path}.agent", "missing_key", "'agent' is missing: it writes the summary", "name an agent")


def _body_names(steps: Iterable[AnyStep]) -> list[str]:
    """The steps of a body, those inside conditionals too, but not those of inner loops."""
    found = []
    for step in steps:
        found.append(step.name)
        if isinstance(step, Conditional):
            for block in step.blocks().values():
                found += _body_names(block.steps)
        if isinstance(step.on_error, Fallback):
            found += _body_names([step.on_error.fallback])
    return found


def _check_path(text: str, path: str, findings: Findings) -> None:
    if not _PATH.fullmatch(text) or text in ("context", "context."):
        told = f"{text[:60]!r} is no path into the context"
        findings.add(path, "bad_value", told, "write keys with dots between them, such as stats.total")


def _check_target(target: str, path: str, findings: Findings) -> None:
    if not target.startswith("context."):
        told = f"the target {target[:60]!r} stands outside the context"
        findings.add(path, "bad_target", told, f"did you mean {'context.' + target[:60]!r}?")
    else:
        _check_path(target, path, findings)
