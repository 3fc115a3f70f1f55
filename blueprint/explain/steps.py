"""Step kinds in plain words, for pages and graphs: one function for each kind, registered in `WORDS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.blueprint.explain.agents import model, tool_name
from holdfast.blueprint.explain.cost import literal_item_count
from holdfast.blueprint.explain.description import NestedSteps, StepDescription
from holdfast.blueprint.explain.people import PREVIOUS, RESCUE, Ask, ask_of, describe_question
from holdfast.blueprint.explain.plans import describe_plan
from holdfast.blueprint.explain.schemas import fields, shape
from holdfast.blueprint.explain.words import (
    Vocabulary,
    as_sentence,
    choice,
    condition,
    constant,
    counted,
    duration,
    filled,
    listed,
    one_line,
    value,
)
from holdfast.blueprint.expressions.parse import is_plain
from holdfast.blueprint.kinds import (
    Agent,
    AgenticLoop,
    AnyStep,
    Cache,
    Clarify,
    Conditional,
    Finalize,
    Hitl,
    ImportConfig,
    Loop,
    LoopBlock,
    Map,
    Operation,
    Parallel,
    PlainStep,
    Plan,
    Retry,
    Step,
)
from holdfast.blueprint.kinds.loop_block import MOST_IDLE_ROUNDS
from holdfast.blueprint.kinds.references import BUILTINS, IMPORT


def describe_step(step: AnyStep, names: Vocabulary) -> StepDescription:
    """Return the description of a step by its kind, without what every step may add."""
    description: StepDescription = WORDS[type(step)](step, names)
    return description


# Single actions


def _plain(step: PlainStep, names: Vocabulary) -> StepDescription:
    input_text = filled(step.input, names)
    if step.agent is not None:
        input_text = "the conversation" if names.conversing and step.input == PREVIOUS else input_text
        text = f"{_agent_phrase(step.agent)} works on {input_text}.{_attempts(step.timeout, step.retry)}"
        return StepDescription(text, agent=step.agent)
    if step.uses is None:
        return StepDescription(
            f"passes on {input_text}." if step.input == PREVIOUS else as_sentence(f"gives {input_text}")
        )
    if step.uses.startswith(IMPORT):
        return _import(step, step.uses.removeprefix(IMPORT), input_text, names)
    if step.uses in BUILTINS:
        return StepDescription(f"{_builtin(step.uses, step.input, input_text, names)}.")
    noun = "the function" if ":" in step.uses else "the tool"
    text = f"calls {noun} {one_line(step.uses, 80)} with {input_text}.{_attempts(step.timeout, step.retry)}"
    return StepDescription(text, calls=True)


def _agent_phrase(agent: str | Agent) -> str:
    return f"the agent {agent}" if isinstance(agent, str) else f"an agent ({model(agent.model)})"


def _attempts(timeout: float | None, retry: Retry | None) -> str:
    if retry is None:
        return f" It may take {duration(timeout)}." if timeout is not None else ""
    each = f" of {duration(timeout)}" if timeout is not None else ""
    limit = f"{counted(retry.attempts, 'attempt')}{each} at most"
    return f" {limit}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _import(step: PlainStep, alias: str, input_text: str, names: Vocabulary) -> StepDescription:
    config = step.config or ImportConfig()
    input_text = input_text if config.input is None else filled(config.input, names)
    back = listed([f"its {_path(child)} as {_path(parent)}" for child, parent in config.outputs.items()])
    kept = f" It keeps {back} in the context." if config.outputs else ""
    return StepDescription(f"runs the blueprint {alias} (below) with {input_text}.{kept}", runs=alias)


_BUILTIN = {
    "stringify": "turns {} into text",
    "passthrough": "passes on {}",
    "context_set": "writes to the context: {}",
    "context_get": "reads from the context: {}",
    "context_merge": "merges into the context: {}",
    "select_fields": "keeps some of the keys: {}",
    "flatten": "makes one list of {}",
    "check_user_confirmation": "gives 'approved' if {} is an explicit yes, else 'denied'",
}


def _builtin(name: str, input_: Any, input_text: str, names: Vocabulary) -> str:
    match name, input_:
        case "context_set", {"path": str(path)} if is_plain(path):
            return f"sets {_path(path)} in the context to {filled(input_.get('value'), names)}"
        case "context_merge", {"path": str(path)} if is_plain(path):
            return f"merges {filled(input_.get('value'), names)} into {_path(path)} in the context"
        case ("context_get", str(path)) | ("context_get", {"path": str(path)}) if is_plain(path):
            return f"gives {_path(path)} from the context"
    return _BUILTIN.get(name, f"uses {name} on {{}}").replace("{}", input_text, 1)


# A person


def _hitl(step: Hitl, names: Vocabulary) -> StepDescription:
    return StepDescription(describe_question(step, names), asks=(ask_of(step, names),))


def _clarify(step: Clarify, names: Vocabulary) -> StepDescription:
    except_known = f", but for what is known and fits of {filled(step.known, names)}" if step.known is not None else ""
    facts = fields({**step.facts, "required": step.wanted()}) or shape(step.facts)
    sentences = [f"talks with a person about {filled(step.goal, names)} until it knows {facts}{except_known}."]
    sentences.append(f"{counted(step.most_questions, 'question')} at most; {_AT_MOST[step.on_max_questions]}.")
    if step.confirm:
        sentences.append("At the end the person sees what was understood, and may correct or reject it.")
    if step.agent is not None:
        sentences.append(f"{_capital(_agent_phrase(step.agent))} words the questions and reads the answers.")
    asks = [Ask("input" if step.agent is None else "clarification", "what is not known yet")]
    asks += [Ask("review", "what was understood", on_decline="rejected")] if step.confirm else []
    asks += [Ask("decision", "Go on asking?", MORE)] if step.on_max_questions == "ask" else []
    return StepDescription(" ".join(sentences), asks=tuple(asks), agent=step.agent)


MORE = ("more", "finish", "fail")
_AT_MOST = {
    "fail": "if that is not enough, it fails",
    "finish": "then it goes on with what there is",
    "ask": "then a person says whether to go on",
}


# Branches


def _conditional(step: Conditional, names: Vocabulary) -> StepDescription:
    inside = names.after(filled(step.input, names))
    if (clause := yes_or_no(step, names)) is not None:
        return _either(step, clause, inside)
    blocks = [
        NestedSteps(f"If it is {_key(key)}{_colon_or_nothing(then)}", then, inside, key, key)
        for key, then in step.branches.items()
    ]
    return StepDescription(f"goes by {subject(step, names)}.{_unknown_key(step)}", (*blocks, *_otherwise(step, inside)))


def _key(key: str) -> str:
    return key if key in ("true", "false", "null") else constant(key)


def yes_or_no(step: Conditional, names: Vocabulary) -> str | None:
    """Return the condition as a clause if it is true or false, else None."""
    if step.condition_expression is None or not set(step.branches) <= {"true", "false"}:
        return None
    return choice(step.condition_expression, names.after(filled(step.input, names)))


def subject(step: Conditional, names: Vocabulary) -> str:
    """Return the words for the value that selects a branch."""
    input_text = filled(step.input, names)
    if step.condition_expression is None:
        return f"what the function {step.condition} says of {input_text}"
    return value(step.condition_expression, names.after(input_text))


def _either(step: Conditional, clause: str, names: Vocabulary) -> StepDescription:
    """Return the description of a condition that is true or false."""
    titles = {"true": f"If {clause}", "false": f"Unless {clause}" if "true" not in step.branches else "Otherwise"}
    keys = {"true": "yes", "false": "no"}
    blocks = [
        NestedSteps(f"{titles[key]}{_colon_or_nothing(step.branches[key])}", step.branches[key], names, keys[key], key)
        for key in ("true", "false")
        if key in step.branches
    ]
    other = [] if len(blocks) == 2 else _otherwise(step, names)
    ways = "goes one of two ways." if len(blocks) == 2 or other else "goes one way, or fails."
    return StepDescription(ways, (*blocks, *other))


def _otherwise(step: Conditional, names: Vocabulary) -> list[NestedSteps]:
    branch = step.default_branch
    return [] if branch is None else [NestedSteps(f"Otherwise{_colon_or_nothing(branch)}", branch, names, "otherwise")]


def _colon_or_nothing(steps: Sequence[AnyStep]) -> str:
    return ":" if steps else ": nothing."


def _unknown_key(step: Conditional) -> str:
    return " Anything else fails the step." if step.default_branch is None else ""


# Repetition


def _loop(step: Loop, names: Vocabulary) -> StepDescription:
    block = step.loop
    input_text = filled(step.input, names)
    inside = names.after(names.previous if step.input == PREVIOUS else input_text)
    sentences = [
        f"repeats these steps {_until(step, names)}",
        *_writes_sentence(block.init, "Before the first round", inside),
    ]
    if step.input != PREVIOUS:
        sentences.append(as_sentence(f"The first round begins with {input_text}"))
    if block.initial_input_mapper is not None:
        sentences.append(f"The first round begins with what {block.initial_input_mapper} makes.")
    if block.conversation:
        sentences.append(_conversation_sentence(block))
    after = _after_round(step, names)
    sentences += _writes_sentence(block.state, "Between two rounds", after)
    sentences += _next_input_sentence(block, after)
    sentences += _result_sentence(block.output_template, block.output, block.loop_output_mapper, after)
    inner = replace(names.after("what the round begins with"), conversing=block.conversation)
    body = NestedSteps("", block.body, inner)
    ask = Ask("decision", f"{step.name} has not met its exit. Go on?", MORE)
    more = (ask,) if block.at_the_limit == "ask" else ()
    shorter = block.history_management
    return StepDescription(" ".join(sentences), (body,), more, agent=None if shorter is None else shorter.agent)


def _after_round(step: Loop, names: Vocabulary) -> Vocabulary:
    """Return the vocabulary after a round."""
    last = step.loop.body[-1]
    seen = names.after(result_of(last, names))
    plain = isinstance(last, Hitl) and last.when is None and last.ask_kind.is_plain
    return seen.with_roots(output="the answer", previous_step="the answer") if plain else seen


def ends_of(step: Loop, names: Vocabulary) -> list[str]:
    """Return the clauses about the end of a loop: its exit, its limit, what happens at the limit."""
    block = step.loop
    exits: list[str] = []
    if block.exit_expression is not None:
        exits = [f"until {condition(block.exit_expression, _after_round(step, names))}"]
    elif block.exit_condition is not None:
        exits = [f"until the function {block.exit_condition} says so"]
    if block.max_loops is None:
        rounds = f"at most {MOST_IDLE_ROUNDS} rounds in a row without asking anybody"
        return [*exits, rounds, _AT_MOST[block.at_the_limit]]
    if not exits and block.at_the_limit == "finish":
        return [counted(block.max_loops, "time")]
    return [*exits, f"at most {counted(block.max_loops, 'time')}", _AT_MOST[block.at_the_limit]]


def _until(step: Loop, names: Vocabulary) -> str:
    match ends_of(step, names):
        case [*others, limit, then]:
            return f"{', '.join([*others, limit])}; {then}."
        case limits:
            return f"{', '.join(limits)}."


def _conversation_sentence(block: LoopBlock) -> str:
    """Return the sentence about the conversation a loop keeps."""
    source = f" and of {block.ai_turn_source}" if block.ai_turn_source is not None else ""
    kept = f"It keeps the conversation: the turns of the person{source}"
    shorter = block.history_management
    if shorter is None:
        return f"{kept}."
    amounts = [counted(shorter.max_turns, "turn")] if shorter.max_turns is not None else []
    amounts += [counted(shorter.max_tokens, "token")] if shorter.max_tokens is not None else []
    summary = f"{_agent_phrase(shorter.agent or '')} summarises what is older"
    rest = summary if shorter.strategy == "summarize" else "what is older is dropped"
    return f"{kept}; of more than {listed(amounts, 'or')} {rest}."


def _next_input_sentence(block: LoopBlock, names: Vocabulary) -> list[str]:
    """Return the sentence about the input of later rounds, unless it is the previous result."""
    if block.iteration_input_mapper is not None:
        return [f"Each further round begins with what {block.iteration_input_mapper} makes."]
    match block.propagation.next_input:
        case "previous_output":
            return []
        case "context":
            return ["Each further round begins with the context."]
        case "auto":
            return ["Each further round begins with the context if a step writes it, else with the last result."]
        case template:
            return [f"Each further round begins with {filled(template, names)}."]


def _result_sentence(template: str | None, output: Any, mapper: str | None, names: Vocabulary) -> list[str]:
    if mapper is not None:
        return [f"It gives what {mapper} makes."]
    if template is None and output is None:
        return []
    return [as_sentence(f"It gives {filled(output if template is None else template, names)}")]


def _writes_sentence(operations: Sequence[Operation], when: str, names: Vocabulary) -> list[str]:
    if not operations:
        return []
    return [f"{when} it {listed([_write_phrase(operation, names) for operation in operations])}."]


def _write_phrase(operation: Operation, names: Vocabulary) -> str:
    path, new_value = _path(operation.write.target), filled(operation.write.value, names)
    name = names.keys.get(("context", *path.split(".")))
    place = name or f"{path} in the context"
    match operation.verb:
        case "set":
            return f"sets {place} to {new_value}"
        case "append":
            return f"adds {new_value} to {place}"
        case "merge":
            return f"merges {new_value} into {place}"


def _path(path: str) -> str:
    return one_line(path.removeprefix("context."), 60)


# Maps, parallel branches, caches and planners


def _map(step: Map, names: Vocabulary) -> StepDescription:
    block = step.map
    input_text = filled(step.input, names)
    inside = names.after(names.previous if step.input == PREVIOUS else input_text)
    at_once = "one after the other" if block.max_concurrency == 1 else f"up to {block.max_concurrency} at once"
    sentences = [
        f"does these steps for each item of {items(step, inside)}, {at_once}; {_FAILED_ITEM[block.on_item_error]}."
    ]
    sentences += _writes_sentence(block.init, "Before the first item", inside)
    end = block.finalize or Finalize()
    sentences += _result_sentence(end.output_template, end.output, None, names.after("the list of results")) or [
        "It gives the list of results."
    ]
    asks = (Ask("input", "An item has failed. What now?", RESCUE),) if block.on_item_error == "ask" else ()
    return StepDescription(
        " ".join(sentences), (NestedSteps("", block.body, replace(names.after("the item"), conversing=False)),), asks
    )


_FAILED_ITEM = {
    "fail": "one that fails fails all",
    "continue": "one that fails gives nothing",
    "ask": "of one that fails a person says what to do",
}


def items(step: Map, names: Vocabulary) -> str:
    """Return the words for the list of a map; a bare identifier is a key of the context."""
    expression = step.map.iterable_input
    if expression.isidentifier() and expression not in names.roots:
        return value(f"context.{expression}", names)
    number = literal_item_count(step)
    if number is not None and not expression.lstrip().startswith("range"):
        return f"a list of {number}: {one_line(expression, 80)}"
    return value(expression, names)


def _parallel(step: Parallel, names: Vocabulary) -> StepDescription:
    inside = names.after(names.previous if step.input == PREVIOUS else filled(step.input, names))
    sentences = [f"does {counted(len(step.branches), 'thing')} at the same time."]
    if step.on_branch_failure == "ignore":
        sentences.append("One that fails gives nothing, unless all do.")
    if step.merge_strategy != "context_update":
        sentences.append(_MERGED[step.merge_strategy])
    if step.context_include_keys is not None:
        sentences.append(f"They see only {listed(step.context_include_keys)} of the context.")
    for branch, paths in (step.field_mapping or {}).items():
        sentences.append(f"Of what {branch} writes to the context only {listed(paths)} is kept.")
    sentences.append(f"It gives {_REDUCED[step.reduce or '']}.")
    blocks = [
        NestedSteps(f"{name}{_colon_or_nothing(steps)}", steps, inside, name, name)
        for name, steps in step.branches.items()
    ]
    return StepDescription(" ".join(sentences), tuple(blocks))


_MERGED = {
    "overwrite": "Where two write the same place of the context, the later one counts.",
    "keep_first": "Where two write the same place of the context, the first one counts.",
    "error_on_conflict": "If two write the same place of the context, it fails.",
    "no_merge": "What they write to the context is dropped.",
}
_REDUCED = {
    "": "the result of each by its name",
    "keys": "their names",
    "values": "the list of their results",
    "union": "their results as one object, where later ones count",
    "concat": "their lists as one",
    "dedupe": "their lists as one, without repetitions",
    "first": "the first result",
    "last": "the last result",
    "majority_vote": "the result that most of them have",
}


def _cache(step: Cache, names: Vocabulary) -> StepDescription:
    key = "the same values of all that it reads" if step.key is None else f"the same key, {filled(step.key, names)},"
    kept = "for ever" if step.ttl is None else f"for {duration(step.ttl)}"
    inside = names if step.input == PREVIOUS else names.after(filled(step.input, names))
    return StepDescription(
        f"does this step once for {key} and keeps its result {kept}.", (NestedSteps("", [step.wrapped_step], inside),)
    )


def _planner(step: AgenticLoop, names: Vocabulary) -> StepDescription:
    runs = f"run {listed([tool_name(tool.name) for tool in step.registry], 'or')}, " if step.registry else ""
    work = f"{_agent_phrase(step.planner)} directs the work on {filled(step.input, names)}"
    sentences = [f"{work}: in each turn it may {runs}ask a person, or finish."]
    sentences.append(f"{counted(step.max_loops, 'turn')} at most; if that is not enough, it fails.")
    end = names.after("what it finished with").with_roots(log="the log of its commands")
    sentences += _result_sentence(step.output_template, None, None, end)
    text = " ".join(sentences) + _attempts(step.timeout, step.retry)
    return StepDescription(text, agent=step.planner, registry=tuple(step.registry))


# Names of results


def result_of(step: AnyStep, names: Vocabulary) -> str:
    """Return the name of a step's result for the step after it."""
    return "the last result" if step.when is not None else names.name_of_result(step.name)


def answers_in(steps: Sequence[AnyStep]) -> dict[str, str]:
    """Return the steps at any depth whose output is a person's answer, with the kind of question they ask."""
    asking: dict[str, str] = {}
    for step in steps:
        if isinstance(step, Hitl) and not step.ask_kind.is_pause:
            asking[step.name] = step.ask
        for block in step.blocks().values():
            asking |= answers_in(block.steps)
    return asking


WORDS: Mapping[type[Step], Callable[[Any, Vocabulary], StepDescription]] = {
    PlainStep: _plain,
    Hitl: _hitl,
    Conditional: _conditional,
    Loop: _loop,
    Map: _map,
    Parallel: _parallel,
    Clarify: _clarify,
    Cache: _cache,
    AgenticLoop: _planner,
    Plan: describe_plan,
}
