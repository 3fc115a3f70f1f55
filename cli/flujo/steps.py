"""The steps of a document for Flujo, turned one by one, with the steps inside them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from holdfast.blueprint.kinds.flujo import OF_IMPORTS, PREFIX
from holdfast.blueprint.kinds.references import AGENT, BUILTINS, IMPORT
from holdfast.blueprint.source import PlacedDict, PlacedList
from holdfast.cli.flujo.loops import convert_loop
from holdfast.cli.flujo.machines import KIND, convert_machine
from holdfast.cli.flujo.nesting import list_inner
from holdfast.cli.flujo.notes import Notes
from holdfast.cli.flujo.routers import ROUTERS, convert_router

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_WHOLE = re.compile(r"\s*\{\{\s*(.+?)\s*\}\}\s*")
_GIVE_TEXT = ("stringify", f"{PREFIX}stringify")
_PASS_ON = ("passthrough", f"{PREFIX}passthrough")
_PREVIOUS = "{{ previous_step }}"
_EQUIVALENTS = {"echo": "passthrough", "return_value": "passthrough"}
"""Flujo's built-in tools that one of ours stands for."""
_WITHOUT_EFFECT = {
    "meta": "marks of Flujo's own",
    "is_adapter": "a mark of Flujo's own",
    "adapter_id": "a mark of Flujo's own",
    "adapter_allow": "a mark of Flujo's own",
    "processing": "how the model is made to give an object: output_schema says what it gives",
}
"""Keys of steps that say nothing here."""
_WITHOUT_EQUAL = {
    "plugins": "what checks an output is an output_schema, or a step after it",
    "validators": "what checks an output is an output_schema, or a step after it",
}
_KINDS_WITHOUT_EQUAL = {
    **dict.fromkeys(
        ROUTERS,
        "let an agent give the name of a branch, and write a kind: conditional by it; a kind: parallel with `choose` "
        "for several branches",
    ),
    "treesearch": "write a kind: loop in which an agent proposes and another one judges, or a tool of yours",
}
"""Kinds of Flujo's, in small letters without `_`, with the way to write the same here."""


def make_name(text: str) -> str:
    """Return a name of ours for any text.

    >>> make_name(" Fetch the page "), make_name("…")
    ('Fetch_the_page', 'step')
    """
    return _NO_NAME.sub("_", text.strip()).strip("_") or "step"


class StepConverter:
    """Turns steps in place.

    Args:
        notes: Gets what was changed, and what is left.
        writers: The agents of the document that give text.
        imports: The keys of the context that each import writes, by its alias.
    """

    def __init__(
        self, notes: Notes, writers: Collection[str] = (), imports: Mapping[str, Collection[str]] = {}
    ) -> None:
        self._notes, self._writers, self._imports = notes, writers, imports
        self.names: dict[str, str] = {}
        """New names of steps, by their old ones."""
        self._after_text = False
        """Whether the step before the current one gives a text that a person writes."""

    def convert_list(self, steps: PlacedList) -> None:
        """Turn a list of steps; an empty one gets a step that passes its input on."""
        if not steps:
            steps.add(PlacedDict.at(steps.place, name="nothing"), steps.place)
            self._notes.change(steps.place, "a list of steps has at least one: `nothing` passes its input on")
        for number, step in enumerate(steps, 1):
            if isinstance(step, PlacedDict):
                self._after_text = number > 1 and _asks_for_text(steps[number - 2])
                self._convert(step, number)

    def _convert(self, step: PlacedDict, number: int) -> None:
        self._name(step, number)
        self._notes.drop(step, _WITHOUT_EFFECT, left=False)
        self._notes.drop(step, _WITHOUT_EQUAL, left=True)
        self._convert_fallback(step)
        if step.get("kind") == KIND:
            convert_machine(step, self._notes)
        convert_router(step, self._notes)
        self._convert_condition(step)
        kind = str(step.get("kind"))
        if (way := _KINDS_WITHOUT_EQUAL.get(kind.replace("_", "").lower())) is not None:
            self._notes.leave(step.value_place("kind"), f"kind: {kind} is not among our kinds: {way}")
        self._convert_tool(step)
        if str(step.get("uses")).startswith(IMPORT):
            self._convert_import(step)
        self._convert_update(step)
        for holder in [step, *(block for key in ("loop", "map") if isinstance(block := step.get(key), PlacedDict))]:
            self._convert_block(holder)
        if step.get("kind") == "loop" or "loop" in step:
            convert_loop(step.get("loop", step), self._notes)
        for steps in list_inner(step):
            self.convert_list(steps)

    def _name(self, step: PlacedDict, number: int) -> None:
        old = step.get("name")
        if not isinstance(old, str):
            step.put("name", f"step_{number}", step.place)
            self._notes.change(step.place, f"a step has a name: step_{number}")
            return
        new = make_name(old)
        if new != old:
            self._notes.change(step.value_place("name"), f"the name {old!r} became {new}")
            self.names[old], step["name"] = new, new

    def _convert_fallback(self, step: PlacedDict) -> None:
        fallback = step.get("fallback")
        if not isinstance(fallback, PlacedDict) or "on_error" in step:
            return
        value, places = step.take("fallback")
        step.put("on_error", PlacedDict.at(fallback.place, fallback=value), places)
        self._notes.change(places[0], "fallback is written on_error: {fallback: …}")
        self._convert(fallback, 1)

    def _convert_update(self, step: PlacedDict) -> None:
        """Leave out that a text is written to the context, which Flujo passes over."""
        if step.get("updates_context") is not True or (reason := self._find_text(step)) is None:
            return
        self._notes.change(step.key_place("updates_context"), f"updates_context was left out: {reason}")
        step.take("updates_context")

    def _find_text(self, step: PlacedDict) -> str | None:
        """Return why the output of a step is no object that is written to the context; None if it may be one."""
        agent, uses = step.get("agent"), step.get("uses")
        gives_text = "what it gives is a text, and has no keys"
        if isinstance(uses, str):
            maps = (
                uses.startswith(IMPORT) and isinstance(config := step.get("config"), PlacedDict) and "outputs" in config
            )
            if uses in _PASS_ON and step.get("input", _PREVIOUS) == _PREVIOUS and self._after_text:
                return gives_text
            return "config.outputs says what comes back" if maps else gives_text if uses in _GIVE_TEXT else None
        if isinstance(agent, str):
            return gives_text if agent.removeprefix(AGENT) in self._writers else None
        if isinstance(agent, PlacedDict):
            return gives_text if "output_schema" not in agent else None
        if step.get("kind") == "hitl":
            return gives_text if "input_schema" not in step else None
        passes_text = step.get("kind", "step") == "step" and not isinstance(step.get("input"), PlacedDict)
        return gives_text if passes_text and not self._passes_object(step) else None

    @staticmethod
    def _passes_object(step: PlacedDict) -> bool:
        """Return whether a step that passes its input on may pass an object: what its template gives, is not known."""
        return isinstance(text := step.get("input"), str) and ("{{" in text or text.lstrip().startswith("{"))

    def _convert_condition(self, step: PlacedDict) -> None:
        """Turn a `condition` that is a template, and no function."""
        condition = step.get("condition")
        if str(step.get("kind")) == "conditional" and "condition" not in step and "condition_expression" not in step:
            self._choose_by_output(step)
        whole = _WHOLE.fullmatch(condition) if isinstance(condition, str) else None
        if whole is not None and "condition_expression" not in step:
            _, places = step.take("condition")
            step.put("condition_expression", whole[1], places)
            self._notes.change(places[0], "a condition that is an expression is called condition_expression")

    def _choose_by_output(self, step: PlacedDict) -> None:
        """Let the output before choose among branches, else the first one, as Flujo does without a condition."""
        branches = step.get("branches")
        if not isinstance(branches, PlacedDict) or not branches:
            return
        names, first = list(branches), next(iter(branches))
        step.put("condition_expression", f"previous_step if previous_step in {names} else {first!r}", step.place)
        self._notes.change(
            step.place, f"without a condition Flujo takes the branch that the output names, else {first}"
        )

    # Tools

    def _convert_tool(self, step: PlacedDict) -> None:
        """Turn `agent: {id, params}` and the built-ins that we do not have."""
        agent = step.get("agent")
        given: PlacedDict | None = None
        if isinstance(agent, PlacedDict) and isinstance(agent.get("id"), str) and "model" not in agent:
            place = step.key_place("agent")
            name = agent["id"]
            given = params if isinstance(params := agent.get("params"), PlacedDict) and params else None
            for key in [key for key in agent if key not in ("id", "params")]:
                self._notes.leave(agent.key_place(key), f"{key} was left out: it is of no use to a tool")
            step.take("agent")
            step.put("uses", name, place)
        for key in ("uses", "agent"):
            reference = step.get(key)
            if isinstance(reference, str) and reference.startswith(PREFIX):
                self._convert_builtin(step, key, reference.removeprefix(PREFIX).removesuffix("_sync"))
        if given is not None:
            self._give(step, given)

    def _convert_builtin(self, step: PlacedDict, key: str, name: str) -> None:
        place = step.key_place(key)
        step.take(key)
        if name == "ask_user":
            step.put("kind", "hitl", place)
            message, places = step.take("input") if "input" in step else ("{{ previous_step }}", (place, place))
            step.put("message", message, places)
            self._notes.change(place, "ask_user is a question: kind: hitl")
            return
        step.put("uses", _EQUIVALENTS.get(name, name), place)
        if name in _EQUIVALENTS:
            self._notes.change(place, f"{PREFIX}{name} is called {_EQUIVALENTS[name]}")
        elif name not in BUILTINS:
            self._notes.leave(place, f"{PREFIX}{name} is not among our tools: write one of that name")

    def _give(self, step: PlacedDict, given: PlacedDict) -> None:
        """Give a tool its parameters: a built-in by its input, another by its arguments."""
        if step.get("kind") == "hitl":
            return
        if step.get("uses") in BUILTINS:
            if "input" in step:
                self._notes.leave(step.key_place("input"), "input was left out: the params of the built-in count")
                step.take("input")
            value = given["value"] if set(given) == {"value"} else given
            step.put("input", value, given.place)
        else:
            arguments = given.copy()
            if "input" in step:
                value, places = step.take("input")
                arguments.put("input", value, places)
                self._notes.leave(places[0], "input became an argument: give it the name that the tool has for it")
            step.put("arguments", arguments, given.place)
        self._notes.change(given.place, "params are the input of a built-in, and the arguments of any other tool")

    # Blocks

    def _convert_import(self, step: PlacedDict) -> None:
        config = step.get("config")
        for holder in [step, *([config] if isinstance(config, PlacedDict) else [])]:
            for key in [key for key in OF_IMPORTS if key in holder]:
                value, (place, _) = holder.take(key)
                if (key, value) == ("input_to", "initial_prompt"):
                    self._notes.change(place, "input_to was left out: an import is given its input")
                elif key == "input_to":
                    text = f"input_to: {value} was left out: the import has a context of its own and is given its input"
                    self._notes.leave(place, f"{text}; where it reads context, let it read input")
                else:
                    self._notes.leave(place, f"{key} was left out: {OF_IMPORTS[key]}")
        if isinstance(config, PlacedDict) and not config:
            step.take("config")
        self._take_over_context(step)

    def _take_over_context(self, step: PlacedDict) -> None:
        """Say what an import gives back: in Flujo `updates_context` takes over the whole context of the import."""
        keys = self._imports.get(str(step["uses"]).removeprefix(IMPORT))
        config = step.get("config", PlacedDict.at(step.place))
        if step.get("updates_context") is not True or keys is None or "outputs" in config:
            return
        place = step.key_place("updates_context")
        step.take("updates_context")
        if not keys:
            self._notes.change(place, "updates_context was left out: the import writes nothing to its context")
            return
        config.put("outputs", PlacedDict.at(place, **{key: key for key in sorted(keys)}), place)
        step.put("config", config, place)
        self._notes.change(
            place, f"updates_context became config.outputs: what the import writes, {', '.join(sorted(keys))}"
        )

    def _convert_block(self, holder: PlacedDict) -> None:
        config = holder.get("config")
        outputs = isinstance(config, PlacedDict) and "outputs" in config
        if outputs and not str(holder.get("uses")).startswith(IMPORT):
            self._notes.leave(holder.key_place("config"), "config was left out: its outputs belong to an import")
            holder.take("config")
        if isinstance(holder.get("registry"), PlacedDict):
            self._notes.change(holder.value_place("registry"), "registry is a list of the tools' names")
            holder["registry"] = PlacedList.at(holder["registry"].place, *holder["registry"])


def _asks_for_text(step: Any) -> bool:
    return isinstance(step, PlacedDict) and step.get("kind") == "hitl" and "input_schema" not in step
