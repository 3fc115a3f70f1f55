"""Random blueprints: the language by a table with a line for each kind of step.

A new kind comes with its line; `tests/drills/test_simulate.py` fails while one is missing. What a blueprint gives must
not depend on the order in which things happen: a name is written once, and a question that runs into its deadline is
one that nobody answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml

from drills.simulate import extras
from drills.simulate.choices import Choices
from drills.simulate.extras import NOBODY
from drills.simulate.world import ASKING, BROKEN, FIND, LATE, PAY, RING, THINK
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import loads

Json = dict[str, Any]
DEEPEST = 3
WRONG, RIGHT = "// context.zero", "// 2"
"""A part of an expression that fails, and what a person writes in its place before the run is retried."""
MARK = "mark"
"""A key of the context that steps read, and that forks set."""
UNDONE = "do"
"""How the names of steps begin that are undone if their block does not complete."""
FINE = "fine"
"""What the last steps of a block are told if its steps have completed; else they are told of the failure."""
SIZES = (1, 2, 3, 4, 6)
"""Steps of a blueprint, about."""
OFTEN = (1.0, 0.1, 4.0)
"""How often a blueprint has a kind, beside others: some of few kinds find what those of all do not."""
PLAIN = (1.0, 1.0, 1.0, 1.0, 1.0, 4.0, 0.5, 0.5, 0.5, 1.0)
"""How often a plain step does what: an agent with tools is most of all."""
ASKS: tuple[Json, ...] = (
    {"ask": "input"},
    {"ask": "clarification"},
    {"ask": "decision", "options": ["keep", "drop"]},
    {"ask": "decision", "options": ["keep", {"id": "drop", "label": "Drop it"}], "multiple": True},
    {"ask": "clarification", "options": ["keep", "drop"], "allow_custom": True},
    {"ask": "permission"},
    {"ask": "permission", "risk": "high", "action": "Pay", "details": {"to": "Ann"}},
    {"ask": "permission", "risk": "{{ 'high' if input == 'tea' else 'low' }}", "action": "Pay"},
    {"ask": "review", "input": {"title": "Tea"}},
    {"ask": "hold"},
    {"ask": "input", "input_schema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}},
)


@dataclass(frozen=True)
class Generated:
    """A blueprint with what other systems send to its run."""

    text: str
    blueprint: Blueprint
    events: tuple[tuple[str, str], ...]


@dataclass
class Generator:
    """Writes one blueprint by choices; the first of each is the smallest."""

    choices: Choices
    agents: Json = field(default_factory=dict)
    context: Json = field(default_factory=lambda: {MARK: None})
    events: list[tuple[str, str]] = field(default_factory=list)
    repeated: int = 0
    """How many loops and maps there are around."""
    count: int = 0
    most: int = 0
    has_planner: bool = False
    weights: dict[str, float] = field(default_factory=dict)
    """How often each kind is chosen."""

    def write(self) -> Json:
        """Return a document."""
        self.most = SIZES[self.choices.below(len(SIZES))]
        self.weights = {kind: OFTEN[self.choices.below(len(OFTEN))] for kind in MAKERS}
        self.weights["step"] *= 3  # does one of many things
        steps = self.make_steps(0)
        document: Json = {"name": "simulated", "agents": self.agents, "context": self.context}
        document |= {"steps": steps, **self.order(steps)}
        document |= self.choose(extras.OF_DOCUMENTS, 0.2)
        return {key: value for key, value in document.items() if value}

    def choose(self, table: Sequence[Json], share: float) -> Json:
        """Return an entry of a table in this share of cases, else nothing."""
        return table[self.choices.below(len(table))] if self.choices.chance(share) else {}

    def make_steps(self, depth: int) -> list[Json]:
        """Return a list of steps; deeper ones are shorter."""
        steps = [self.make_step(depth)]
        for _ in range(self.choices.below(3 if depth < 2 else 2)):
            if self.count < self.most:
                steps.append(self.make_step(depth))
        return steps

    def order(self, steps: list[Json]) -> Json:
        """Make a graph of some lists of steps: each goes on once those are done that it needs. Return how many may."""
        if len(steps) < 2 or not self.choices.chance(0.25):
            return {}
        for before, step in itertools.pairwise(steps):
            if self.choices.chance(0.5):
                step["needs"] = [before["name"]]
        steps[-1].setdefault("needs", [steps[0]["name"]])
        return {"max_parallel": 2 + self.choices.below(2)}

    def make_step(self, depth: int) -> Json:
        """Return a step of a kind that may stand here."""
        kinds = [kind for kind in MAKERS if self._fits(kind, depth)]
        kind = kinds[self.choices.index([self.weights[kind] for kind in kinds])]
        self.count += 1
        name = f"{kind[:2]}{self.count}"
        step = {"name": name, "kind": kind, **MAKERS[kind](self, depth)}
        if self.choices.chance(0.3):
            self.context[name] = None
            step["sink_to"] = name
        for table in (_list_common_extras(kind), extras.OF_KINDS.get(kind, [{}])):
            entry = self.choose(table, 0.25)
            step = _merge(step, yaml.safe_load(yaml.safe_dump(entry).replace(extras.NAME, name)))
        return step

    def _fits(self, kind: str, depth: int) -> bool:
        if kind in NESTING and (depth >= DEEPEST or self.count >= self.most - 1):
            return False
        if kind == "agentic_loop":  # each writes the log of the whole context: of two at once the order of things tells
            return not self.has_planner
        # An event has one key, so that it is waited for once; a workflow of its own has one id.
        return kind != "wait" or not self.repeated

    @property
    def most_rounds(self) -> int:
        """How often a loop or a map may go round: fewer times inside of others, as each round costs those around it."""
        return 2 if self.repeated else 3

    def repeat(self, depth: int) -> list[Json]:
        """Return the body of a loop or a map."""
        self.repeated += 1
        body = self.make_steps(depth + 1)
        self.repeated -= 1
        return body

    def name_agent(self, *, tools: bool) -> str:
        """Return the name of an agent, with tools or without."""
        if not tools:
            if self.choices.chance(0.3):
                return self._write_agent(
                    "parrot", {"model": "echo"}, extras.OF_AGENTS[:1]
                )  # is called in the workflow's own task
            return self._write_agent("clerk", {}, extras.OF_AGENTS[:1])
        match self.choices.below(4):
            case 0:
                return self._write_agent("boss", {"tools": [PAY, FIND, ASKING], "human": ["ask"]}, extras.OF_TURNS)
            case 1:
                tools_ = [{"name": FIND, **self.choose(extras.OF_TOOLS, 0.8)}]
                return self._write_agent("helper", {"tools": tools_}, extras.OF_AGENTS)
        asks = [{"name": name, "approve": "always"} for name in (PAY, RING)]
        return self._write_agent("chief", {"tools": asks}, extras.OF_TURNS)

    def _write_agent(self, name: str, keys: Json, table: Sequence[Json]) -> str:
        """Put an agent into the blueprint, if it is not there yet; return its name."""
        if name not in self.agents:
            self.agents[name] = {"model": "simulated", **keys, **self.choose(table, 0.3)}
        return name


def _list_common_extras(kind: str) -> Sequence[Json]:
    """Return what a step of a kind may have as those of others."""
    ordinary = () if kind in ("hitl", "step") else extras.ORDINARY
    to_fail = () if kind in NESTING else extras.TO_FAIL
    return [*extras.COMMON, *ordinary, *to_fail]


def _merge(one: Json, other: Json) -> Json:
    """Return the keys of both; what only the first says stays inside of what both have."""
    both = {key for key in one.keys() & other.keys() if isinstance(one[key], dict) and isinstance(other[key], dict)}
    return {**other, **one, **{key: _merge(one[key], other[key]) for key in sorted(both)}}


def _make_plain(gen: Generator, depth: int) -> Json:
    match gen.choices.index(PLAIN):
        case 0:
            return {"input": "a text"}
        case 1:
            return {"uses": PAY, "input": f"{{{{ context.{MARK} or input }}}}", **gen.choose(extras.OF_CALLS, 0.2)}
        case 2:
            return {
                "uses": FIND,
                "arguments": {"what": f"{{{{ context.{MARK} or 'tea' }}}}"},
                **gen.choose(extras.OF_TOOL_STEPS, 0.5),
            }
        case 3:
            return {"uses": ASKING, "input": "tea"}
        case 4:
            return {"agent": gen.name_agent(tools=False), "input": "Write.", **gen.choose(extras.OF_CALLS, 0.2)}
        case 5:
            return {"agent": gen.name_agent(tools=True), "input": "Work."}
        case 6:
            return {"agent": {"model": "simulated", "tools": [FIND]}, "input": "Find.", "ends_with_tool": True}
        case 7:
            return {"input": {f"key{gen.count}": "a text"}, "updates_context": True}
        case 8:
            gen.context["zero"] = 0
            return {"input": f"{{{{ 6 {WRONG} }}}}"}
    return {"uses": BROKEN, "input": "tea", "on_error": "continue"}


def _make_hitl(gen: Generator, depth: int) -> Json:
    if gen.choices.chance(0.15):
        return {"message": f"{NOBODY} this.", "timeout": "{{ 2 }}h", "default": "nothing", "on_timeout": "default"}
    ask = {"message": "Which?", **ASKS[gen.choices.below(len(ASKS))]}
    if ask["ask"] == "hold":
        return ask
    if gen.choices.chance(0.2):
        ask["remind_every"] = "{{ 15 * 2 }}m"
    return {**ask, **gen.choose(extras.OF_QUESTIONS, 0.3)}


def _make_conditional(gen: Generator, depth: int) -> Json:
    branches = {"true": gen.make_steps(depth + 1), "false": gen.make_steps(depth + 1)}
    return {"condition_expression": "input == 'tea'", "branches": branches, **gen.order(branches["true"])}


def _make_loop(gen: Generator, depth: int) -> Json:
    loop: Json = {
        "max_loops": 1 + gen.choices.below(gen.most_rounds),
        "on_max_loops": "finish",
        "body": gen.repeat(depth),
    }
    loop |= gen.order(loop["body"])
    if not gen.repeated and gen.choices.chance(0.25):  # each iteration waits for an event of its own
        key = f"INV-{gen.count}"
        gen.events += [("paid", f"{key}-{n}") for n in range(1, loop["max_loops"] + 1)]
        loop["body"].insert(
            0, {"kind": "wait", "name": f"paid{gen.count}", "for": "paid", "key": f"{key}-{{{{ iteration }}}}"}
        )
    if gen.choices.chance(0.7):
        loop["checkpoint_every"] = 1 + gen.choices.below(2)
    return {"loop": loop}


def _make_map(gen: Generator, depth: int) -> Json:
    items = ["a", "b", "c"][: 1 + gen.choices.below(gen.most_rounds)]
    block: Json = {"iterable_input": items, "body": gen.repeat(depth)}
    block |= gen.order(block["body"])
    if gen.choices.chance(0.3):
        block["max_concurrency"] = 2
    if gen.choices.chance(0.2):
        block["max_items"] = len(items)
    return {"map": block}


def _make_parallel(gen: Generator, depth: int) -> Json:
    if gen.choices.chance(0.3):
        return _make_race(gen, depth)
    branches = {name: gen.make_steps(depth + 1) for name in ("x", "y", "z")[: 2 + gen.choices.below(2)]}
    return {"branches": branches, **gen.order(branches["x"])}


def _make_race(gen: Generator, depth: int) -> Json:
    """Return a race that the same branches win in any order of things: in the others nobody ever answers."""
    n = gen.count
    ask = {"kind": "hitl", "message": f"{NOBODY} this."}
    loop = {"kind": "loop", "loop": {"max_loops": 9, "body": [{**ask, "name": f"never{n}"}]}}
    lost = loop if gen.choices.chance(0.5) else ask
    branches = {"lost": [{**lost, "name": f"lost{n}"}]}
    winners = ("x", "y")[: 1 + gen.choices.below(2)]
    for name in winners:
        branches[name] = [*gen.make_steps(depth + 1), {"name": f"won{n}{name}", "input": "a text"}]
    if gen.choices.chance(0.5):  # the order of the winners is that of things
        return {"branches": branches, "until": len(winners), "reduce": "values"}
    branches["unchosen"] = [{**ask, "name": f"unchosen{n}"}]
    wanted = " and ".join(f"output.{name} is defined" for name in winners)
    return {"branches": branches, "until": wanted, "reduce": "keys", "choose": ["lost", *winners]}


def _make_block(gen: Generator, depth: int) -> Json:
    """Return a block, some of which fail: then what they have paid is paid back. In others nobody ever answers."""
    n = gen.count
    if gen.choices.chance(0.15):
        return _make_replans(gen)
    if gen.choices.chance(0.2):
        ask = {"name": f"never{n}", "kind": "hitl", "message": f"{NOBODY} this."}
        loop = {"name": f"loop{n}", "kind": "loop", "loop": {"max_loops": 9, "body": [ask]}}
        return {"steps": [loop if gen.choices.chance(0.5) else ask], "deadline": "1h", "on_deadline": "finish"}
    undo = {"uses": PAY, **({"arguments": {"what": "back"}} if gen.choices.chance(0.3) else {"input": "back"})}
    undo |= gen.choose(extras.OF_UNDOS, 0.2)
    done: Json = {"name": f"{UNDONE}{n}", "uses": PAY, "input": "{{ input }}", "undo": undo}
    if gen.choices.chance(0.3):
        done = {"name": f"each{n}", "kind": "loop", "loop": {"max_loops": 2, "checkpoint_every": 1, "body": [done]}}
    steps = [done, *gen.make_steps(depth + 1)]
    block: Json = {"steps": steps, "on_undo_error": "continue"}
    if gen.choices.chance(0.5):
        steps.append({"name": f"fail{n}", "uses": BROKEN, "input": "tea"})
        block["on_error"] = "continue"
    if gen.choices.chance(0.5):
        block["finally"] = [{"name": f"last{n}", "uses": PAY, "input": f"{{{{ error.type if error else '{FINE}' }}}}"}]
    return block


def _make_replans(gen: Generator) -> Json:
    """Return a block whose planner makes its plan again: the first one fails, after it has paid."""
    gen.agents["planner"] = {"model": "simulated", "instructions": "Plan it.", "output_schema": "plan"}
    gen.agents["payer"] = {"model": "simulated", "tools": [PAY, BROKEN]}
    plan = {"from": f"{{{{ steps.{THINK}{gen.count}.output }}}}", "agent": "payer"}
    return {
        "steps": [
            {"name": f"{THINK}{gen.count}", "uses": "agents.planner", "input": "Plan."},
            {"name": f"again{gen.count}", "kind": "plan", "plan": {**plan, "max_replans": 1 + gen.choices.below(2)}},
        ]
    }


def _make_clarify(gen: Generator, depth: int) -> Json:
    schema = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
    step: Json = {"goal": "A brief", "schema": schema, "confirm": gen.choices.chance(0.3)}
    return {**step, "agent": gen.name_agent(tools=False)} if gen.choices.chance(0.4) else step


def _make_cache(gen: Generator, depth: int) -> Json:
    return {"ttl": "1d", "wrapped_step": {"name": f"w{gen.count}", "uses": FIND, "input": "tea"}}


def _make_timer(gen: Generator, depth: int) -> Json:
    # Short: an event that comes before it is waited for is kept for a day.
    if gen.choices.chance(0.1):
        return {"until": "2026-01-01T00:30:00Z"}
    return {"for": ("10m", "1s", "30m")[gen.choices.below(3)]}


def _make_workflow(gen: Generator, depth: int) -> Json:
    return {"workflow": {"name": "Foreign", "task_queue": "elsewhere", "input": "tea"}}


def _make_wait(gen: Generator, depth: int) -> Json:
    key = f"INV-{gen.count}"
    if gen.choices.chance(0.1):
        return {"for": "never", "key": key, "timeout": "2h", "default": "nothing", "on_timeout": "default"}
    early = gen.choices.chance(0.2)
    name = LATE if early else "paid"
    gen.events.append((name, key))
    return {"for": name, "key": key, **({"early": "drop"} if early else {})}


def _make_agentic_loop(gen: Generator, depth: int) -> Json:
    gen.has_planner = True
    return {"planner": gen.name_agent(tools=False), "registry": [FIND, PAY][: 1 + gen.choices.below(2)]}


def _make_plan(gen: Generator, depth: int) -> Json:
    driver = "agent" if gen.choices.chance(0.4) else "engine"
    share = 0.4 if driver == "engine" else 0.0
    steps: list[Json] = [{"id": "list", "instruction": "List two guests"}]
    if gen.choices.chance(0.6):
        question = {"id": "sure", "instruction": "Which day?", "pause_for_response": True}
        steps.append({**question, **gen.choose(extras.OF_PLAN_QUESTIONS, share)})
    if gen.choices.chance(0.6):
        book = {"id": "book", "instruction": "Book it", "tools": [PAY], "dependencies": ["list"]}
        steps.append({**book, **gen.choose(extras.OF_PLAN_STEPS, share)})
    steps += [step for step in [gen.choose(extras.PLAN_STEPS, share / 2)] if step]
    plan: Json = {"goal": "A party", "agent": gen.name_agent(tools=False), "steps": steps, "driver": driver}
    if gen.choices.chance(0.5):
        loop = {"over": ["a", "b"], "steps": ["invite"], **gen.choose(extras.OF_PLAN_LOOPS, share)}
        plan["loop_blocks"] = {"each": loop}
        steps.append({"id": "invite", "instruction": "Invite CURRENT_ITEM", "tools": [FIND]})
    if gen.choices.chance(0.3):
        plan["confirm"] = True
    return {"plan": plan}


def _make_states(gen: Generator, depth: int) -> Json:
    states: Json = {
        "one": {"steps": gen.repeat(depth), "next": "two"},
        "two": {
            "steps": gen.repeat(depth),
            "max_visits": 2,
            "next": {"value": "'again' if iteration < 3 else 'done'", "to": {"again": "one"}, "else": "over"},
        },
    }
    return {"start": "one", "ends": ["over"], "states": states, "checkpoint_every": 1 + gen.choices.below(3)}


MAKERS: dict[str, Callable[[Generator, int], Json]] = {
    "step": _make_plain,
    "hitl": _make_hitl,
    "loop": _make_loop,
    "map": _make_map,
    "parallel": _make_parallel,
    "block": _make_block,
    "conditional": _make_conditional,
    "clarify": _make_clarify,
    "cache": _make_cache,
    "timer": _make_timer,
    "workflow": _make_workflow,
    "wait": _make_wait,
    "agentic_loop": _make_agentic_loop,
    "plan": _make_plan,
    "states": _make_states,
}
"""What writes a step of each kind, without its name."""
NESTING = {"loop", "map", "parallel", "block", "conditional", "states"}


@lru_cache(maxsize=8)
def generate(choices: tuple[int, ...]) -> Generated:
    """Return the blueprint of these choices."""
    return write(Choices(choices))


def write(choices: Choices) -> Generated:
    """Return the blueprint of these choices. Raises `ValueError` for one that does not load: a mistake of the table."""
    generator = Generator(choices)
    return load(yaml.safe_dump(generator.write(), sort_keys=False), tuple(generator.events))


def mend(generated: Generated) -> Generated | None:
    """Return a blueprint without the expressions that fail; None if it has none."""
    return load(generated.text.replace(WRONG, RIGHT), generated.events) if WRONG in generated.text else None


def load(text: str, events: tuple[tuple[str, str], ...]) -> Generated:
    """Return a blueprint as it is written. Raises `ValueError` for one that does not load."""
    return Generated(text, loads(text, file="simulated.yaml", name="simulated"), events)
