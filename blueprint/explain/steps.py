"""Every step kind in plain words: one function a kind, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from blueprint.explain.agents import model, tool_name
from blueprint.explain.cost import items_of
from blueprint.explain.people import PREVIOUS, RESCUE, Ask, ask_of, asked
from blueprint.explain.plans import told_of_plan
from blueprint.explain.schemas import fields, shape
from blueprint.explain.told import Inner, Told
from blueprint.explain.words import (
    Names,
    choice,
    condition,
    constant,
    counted,
    ended,
    filled,
    lasting,
    listed,
    one_line,
    value,
)
from blueprint.expressions.parse import is_plain
from blueprint.grammar import (
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
from blueprint.grammar.steps import BUILTINS
from blueprint.reach import IMPORT


def told_of(step: AnyStep, names: Names) -> Told:
    """What a step does, by its kind; what every step may say of itself is not in it."""
    told: Told = WORDS[type(step)](step, names)
    return told


# One thing


def _plain(step: PlainStep, names: Names) -> Told:
    given = filled(step.input, names)
    if step.agent is not None:
        told = f"{_who(step.agent)} works on {given}.{_attempts(step.timeout, step.retry)}"
        return Told(told, agent=step.agent)
    if step.uses is None:
        return Told(f"passes on {given}." if step.input == PREVIOUS else ended(f"gives {given}"))
    if step.uses.startswith(IMPORT):
        return _import(step, step.uses.removeprefix(IMPORT), given, names)
    if step.uses in BUILTINS:
        return Told(f"{_builtin(step.uses, step.input, given, names)}.")
    what = "the function" if ":" in step.uses else "the tool"
    told = f"calls {what} {one_line(step.uses, 80)} with {given}.{_attempts(step.timeout, step.retry)}"
    return Told(told, calls=True)


def _who(agent: str | Agent) -> str:
    return f"the agent {agent}" if isinstance(agent, str) else f"an agent ({model(agent.model)})"


def _attempts(timeout: float | None, retry: Retry | None) -> str:
    if retry is None:
        return f" It may take {lasting(timeout)}." if timeout is not None else ""
    each = f" of {lasting(timeout)}" if timeout is not None else ""
    said = f"{counted(retry.attempts, 'attempt')}{each} at most"
    return f" {said}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _import(step: PlainStep, alias: str, given: str, names: Names) -> Told:
    config = step.config or ImportConfig()
    given = given if config.input is None else filled(config.input, names)
    back = listed([f"its {_path(child)} as {_path(parent)}" for child, parent in config.outputs.items()])
    kept = f" It keeps {back} in the context." if config.outputs else ""
    return Told(f"runs the blueprint {alias} (below) with {given}.{kept}", runs=alias)


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


def _builtin(name: str, written: Any, given: str, names: Names) -> str:
    match name, written:
        case "context_set", {"path": str(path)} if is_plain(path):
            return f"sets {_path(path)} in the context to {filled(written.get('value'), names)}"
        case "context_merge", {"path": str(path)} if is_plain(path):
            return f"merges {filled(written.get('value'), names)} into {_path(path)} in the context"
        case ("context_get", str(path)) | ("context_get", {"path": str(path)}) if is_plain(path):
            return f"gives {_path(path)} from the context"
    return _BUILTIN.get(name, f"uses {name} on {{}}").replace("{}", given, 1)


# A person


def _hitl(step: Hitl, names: Names) -> Told:
    return Told(asked(step, names), asks=(ask_of(step, names),))


def _clarify(step: Clarify, names: Names) -> Told:
    known = f", but for what is known and fits of {filled(step.known, names)}" if step.known is not None else ""
    facts = fields({**step.facts, "required": step.wanted()}) or shape(step.facts)
    said = [f"talks with a person about {filled(step.goal, names)} until it knows {facts}{known}."]
    said.append(f"{counted(step.most_questions, 'question')} at most; {_AT_MOST[step.on_max_questions]}.")
    if step.confirm:
        said.append("At the end the person sees what was understood, and may correct or reject it.")
    if step.agent is not None:
        said.append(f"{_capital(_who(step.agent))} words the questions and reads the answers.")
    asks = [Ask("input" if step.agent is None else "clarification", "what is not known yet")]
    asks += [Ask("review", "what was understood", on_decline="rejected")] if step.confirm else []
    asks += [Ask("decision", "Go on asking?", MORE)] if step.on_max_questions == "ask" else []
    return Told(" ".join(said), asks=tuple(asks), agent=step.agent)


MORE = ("more", "finish", "fail")
_AT_MOST = {
    "fail": "if that is not enough, it fails",
    "finish": "then it goes on with what there is",
    "ask": "then a person says whether to go on",
}


# Branches


def _conditional(step: Conditional, names: Names) -> Told:
    inside = names.after(filled(step.input, names))
    if (clause := yes_or_no(step, names)) is not None:
        return _either(step, clause, inside)
    blocks = [
        Inner(f"If it is {_key(key)}{_nothing(then)}", then, inside, key, key) for key, then in step.branches.items()
    ]
    return Told(f"goes by {subject(step, names)}.{_unknown_key(step)}", (*blocks, *_otherwise(step, inside)))


def _key(key: str) -> str:
    return key if key in ("true", "false", "null") else constant(key)


def yes_or_no(step: Conditional, names: Names) -> str | None:
    """The condition as a clause, if it is one that is true or false."""
    if step.condition_expression is None or not set(step.branches) <= {"true", "false"}:
        return None
    return choice(step.condition_expression, names.after(filled(step.input, names)))


def subject(step: Conditional, names: Names) -> str:
    """What the branch is chosen by."""
    given = filled(step.input, names)
    if step.condition_expression is None:
        return f"what the function {step.condition} says of {given}"
    return value(step.condition_expression, names.after(given))


def _either(step: Conditional, clause: str, names: Names) -> Told:
    """A condition that is true or false."""
    titles = {"true": f"If {clause}", "false": f"Unless {clause}" if "true" not in step.branches else "Otherwise"}
    keys = {"true": "yes", "false": "no"}
    blocks = [
        Inner(f"{titles[key]}{_nothing(step.branches[key])}", step.branches[key], names, keys[key], key)
        for key in ("true", "false")
        if key in step.branches
    ]
    other = [] if len(blocks) == 2 else _otherwise(step, names)
    ways = "goes one of two ways." if len(blocks) == 2 or other else "goes one way, or fails."
    return Told(ways, (*blocks, *other))


def _otherwise(step: Conditional, names: Names) -> list[Inner]:
    branch = step.default_branch
    return [] if branch is None else [Inner(f"Otherwise{_nothing(branch)}", branch, names, "otherwise")]


def _nothing(steps: Sequence[AnyStep]) -> str:
    return ":" if steps else ": nothing."


def _unknown_key(step: Conditional) -> str:
    return " Anything else fails the step." if step.default_branch is None else ""


# Again and again


def _loop(step: Loop, names: Names) -> Told:
    block = step.loop
    given = filled(step.input, names)
    inside = names.after(names.previous if step.input == PREVIOUS else given)
    said = [f"repeats these steps {_until(step, names)}", *_writes(block.init, "Before the first round", inside)]
    if step.input != PREVIOUS:
        said.append(ended(f"The first round begins with {given}"))
    if block.initial_input_mapper is not None:
        said.append(f"The first round begins with what {block.initial_input_mapper} makes.")
    if block.conversation:
        said.append(_conversation(block))
    after = _after_round(step, names)
    said += _writes(block.state, "Between two rounds", after)
    said += _handed_on(block, after)
    said += _given(block.output_template, block.output, block.loop_output_mapper, after)
    body = Inner("", block.body, names.after("what the round begins with"))
    ask = Ask("decision", f"{step.name} has not met its exit. Go on?", MORE)
    more = (ask,) if block.max_loops is not None and block.at_the_limit == "ask" else ()
    shorter = block.history_management
    return Told(" ".join(said), (body,), more, agent=None if shorter is None else shorter.agent)


def _after_round(step: Loop, names: Names) -> Names:
    """What names stand for when a round is done."""
    last = step.loop.body[-1]
    seen = names.after(result_of(last, names))
    plain = isinstance(last, Hitl) and last.when is None and last.ask not in ("permission", "review", "hold")
    return seen.knowing(output="the answer", previous_step="the answer") if plain else seen


def ends_of(step: Loop, names: Names) -> list[str]:
    """When a loop ends: its exit, its limit, what happens there; as far as there are any."""
    block = step.loop
    exits: list[str] = []
    if block.exit_expression is not None:
        exits = [f"until {condition(block.exit_expression, _after_round(step, names))}"]
    elif block.exit_condition is not None:
        exits = [f"until the function {block.exit_condition} says so"]
    if block.max_loops is None:
        return [*exits, "however often that takes"]
    if not exits and block.at_the_limit == "finish":
        return [counted(block.max_loops, "time")]
    return [*exits, f"at most {counted(block.max_loops, 'time')}", _AT_MOST[block.at_the_limit]]


def _until(step: Loop, names: Names) -> str:
    match ends_of(step, names):
        case [*others, limit, then] if step.loop.max_loops is not None:
            return f"{', '.join([*others, limit])}; {then}."
        case said:
            return f"{', '.join(said)}."


def _conversation(block: LoopBlock) -> str:
    """What is kept of the talk."""
    who = f" and of {block.ai_turn_source}" if block.ai_turn_source is not None else ""
    kept = f"It keeps the conversation: the turns of the person{who}"
    shorter = block.history_management
    if shorter is None:
        return f"{kept}."
    amounts = [counted(shorter.max_turns, "turn")] if shorter.max_turns is not None else []
    amounts += [counted(shorter.max_tokens, "token")] if shorter.max_tokens is not None else []
    summary = f"{_who(shorter.agent or '')} summarises what is older"
    rest = summary if shorter.strategy == "summarize" else "what is older is dropped"
    return f"{kept}; of more than {listed(amounts, 'or')} {rest}."


def _handed_on(block: LoopBlock, names: Names) -> list[str]:
    """What a further round begins with, where that is not simply the result of the one before."""
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


def _given(template: str | None, output: Any, mapper: str | None, names: Names) -> list[str]:
    if mapper is not None:
        return [f"It gives what {mapper} makes."]
    if template is None and output is None:
        return []
    return [ended(f"It gives {filled(output if template is None else template, names)}")]


def _writes(operations: Sequence[Operation], when: str, names: Names) -> list[str]:
    if not operations:
        return []
    return [f"{when} it {listed([_write(operation, names) for operation in operations])}."]


def _write(operation: Operation, names: Names) -> str:
    path, given = _path(operation.write.target), filled(operation.write.value, names)
    known = names.keys.get(("context", *path.split(".")))
    place = known or f"{path} in the context"
    match operation.verb:
        case "set":
            return f"sets {place} to {given}"
        case "append":
            return f"adds {given} to {place}"
        case "merge":
            return f"merges {given} into {place}"


def _path(path: str) -> str:
    return one_line(path.removeprefix("context."), 60)


# Several


def _map(step: Map, names: Names) -> Told:
    block = step.map
    given = filled(step.input, names)
    inside = names.after(names.previous if step.input == PREVIOUS else given)
    at_once = "one after the other" if block.max_concurrency == 1 else f"up to {block.max_concurrency} at once"
    said = [f"does these steps for each item of {items(step, inside)}, {at_once}; {_FAILED_ITEM[block.on_item_error]}."]
    said += _writes(block.init, "Before the first item", inside)
    end = block.finalize or Finalize()
    said += _given(end.output_template, end.output, None, names.after("the list of results")) or [
        "It gives the list of results."
    ]
    asks = (Ask("input", "An item has failed. What now?", RESCUE),) if block.on_item_error == "ask" else ()
    return Told(" ".join(said), (Inner("", block.body, names.after("the item")),), asks)


_FAILED_ITEM = {
    "fail": "one that fails fails all",
    "continue": "one that fails gives nothing",
    "ask": "of one that fails a person says what to do",
}


def items(step: Map, names: Names) -> str:
    """What is gone through; a bare word is a key of the context."""
    written = step.map.iterable_input
    if written.isidentifier() and written not in names.roots:
        return value(f"context.{written}", names)
    number = items_of(step)
    if number is not None and not written.lstrip().startswith("range"):
        return f"a list of {number}: {one_line(written, 80)}"
    return value(written, names)


def _parallel(step: Parallel, names: Names) -> Told:
    inside = names.after(names.previous if step.input == PREVIOUS else filled(step.input, names))
    said = [f"does {counted(len(step.branches), 'thing')} at the same time."]
    if step.on_branch_failure == "ignore":
        said.append("One that fails gives nothing, unless all do.")
    if step.merge_strategy != "context_update":
        said.append(_MERGED[step.merge_strategy])
    if step.context_include_keys is not None:
        said.append(f"They see only {listed(step.context_include_keys)} of the context.")
    for branch, paths in (step.field_mapping or {}).items():
        said.append(f"Of what {branch} writes to the context only {listed(paths)} is kept.")
    said.append(f"It gives {_REDUCED[step.reduce or '']}.")
    blocks = [Inner(f"{name}{_nothing(steps)}", steps, inside, name, name) for name, steps in step.branches.items()]
    return Told(" ".join(said), tuple(blocks))


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


def _cache(step: Cache, names: Names) -> Told:
    told = "the same values of all that it reads" if step.key is None else f"the same key, {filled(step.key, names)},"
    kept = "for ever" if step.ttl is None else f"for {lasting(step.ttl)}"
    inside = names if step.input == PREVIOUS else names.after(filled(step.input, names))
    return Told(
        f"does this step once for {told} and keeps its result {kept}.", (Inner("", [step.wrapped_step], inside),)
    )


def _planner(step: AgenticLoop, names: Names) -> Told:
    runs = f"run {listed([tool_name(tool.name) for tool in step.registry], 'or')}, " if step.registry else ""
    work = f"{_who(step.planner)} directs the work on {filled(step.input, names)}"
    said = [f"{work}: in each turn it may {runs}ask a person, or finish."]
    said.append(f"{counted(step.max_loops, 'turn')} at most; if that is not enough, it fails.")
    end = names.after("what it finished with").knowing(log="the log of its commands")
    said += _given(step.output_template, None, None, end)
    told = " ".join(said) + _attempts(step.timeout, step.retry)
    return Told(told, agent=step.planner, registry=tuple(step.registry))


# What every list knows


def result_of(step: AnyStep, names: Names) -> str:
    """What a step gives, as the next one would call it."""
    return "the last result" if step.when is not None else names.given_by(step.name)


def answers_in(steps: Sequence[AnyStep]) -> dict[str, str]:
    """The steps, however deep, whose output is what a person said; and what they ask."""
    found: dict[str, str] = {}
    for step in steps:
        if isinstance(step, Hitl) and step.ask != "hold":
            found[step.name] = step.ask
        for block in step.blocks().values():
            found |= answers_in(block.steps)
    return found


WORDS: Mapping[type[Step], Callable[[Any, Names], Told]] = {
    PlainStep: _plain,
    Hitl: _hitl,
    Conditional: _conditional,
    Loop: _loop,
    Map: _map,
    Parallel: _parallel,
    Clarify: _clarify,
    Cache: _cache,
    AgenticLoop: _planner,
    Plan: told_of_plan,
}
