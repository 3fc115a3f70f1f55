"""The names in expressions and templates that Flujo calls otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

EXPRESSIONS = frozenset({"condition_expression", "exit_expression", "when", "expression", "iterable_input"})
"""Keys whose value is a bare expression."""
_CODE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_STEP = re.compile(r"""\bsteps(?:\.get\(\s*(['"])(.+?)\1\s*\)|\[\s*(['"])(.+?)\3\s*\]|\.(\w+))(?!\w|\s*\()""")
_FILTERS = {"to_json": "tojson", "lowercase": "lower", "uppercase": "upper", "trim_whitespace": "trim"}


@dataclass(frozen=True)
class _Name:
    """A spelling of Flujo's, ours, and what is said about it."""

    pattern: re.Pattern[str]
    replacement: str
    note: str


_NAMES = (
    _Name(
        re.compile(r"\bprevious_step\.output\b"),
        "previous_step",
        "previous_step is the output of the step before: previous_step.output became previous_step",
    ),
    _Name(re.compile(r"\bloop\.(?:iteration|index)\b"), "iteration", "the number of the iteration is `iteration`"),
)
_PROMPT = _Name(
    re.compile(r"(?:\bcontext\.|(?<![.\w]))initial_prompt\b"), "input", "initial_prompt became input, the run's input"
)
_WRITTEN_PROMPT = (
    "context.initial_prompt is written by the blueprint, so it stays: before that it is missing here, where Flujo has "
    "the run's input, which is called input"
)
_ITEM = _Name(re.compile(r"(?<![.\w])this\b"), "item", "the item of a map is `item`: `this` became `item`")


@dataclass(frozen=True)
class Templates:
    """Rewrites the expressions of a text.

    Args:
        steps: New names of steps, by their old ones.
        note: Told what was changed.
        leave: Told what is left to the author.
        keeps_prompt: Whether `context.initial_prompt` is more than the run's input, as a step writes it.
    """

    steps: Mapping[str, str]
    note: Callable[[str], None]
    leave: Callable[[str], None]
    keeps_prompt: bool = False

    def rewrite(self, text: str, *, bare: bool, in_map: bool) -> str:
        """Return the text with our names.

        Args:
            text: A template, or with `bare` an expression.
            bare: Whether all of it is an expression.
            in_map: Whether it stands in the body of a map.
        """
        if bare and "{{" not in text:
            return self._rewrite_code(text, in_map)
        return _CODE.sub(lambda match: self._rewrite_code(match[0], in_map), text)

    def _rewrite_code(self, code: str, in_map: bool) -> str:
        if self.keeps_prompt and _PROMPT.pattern.search(code):
            self.leave(_WRITTEN_PROMPT)
        prompt = [] if self.keeps_prompt else [_PROMPT]
        for name in (*_NAMES, *prompt, *([_ITEM] if in_map else [])):
            replaced = name.pattern.sub(name.replacement, code)
            if replaced != code:
                self.note(name.note)
            code = replaced
        for theirs, ours in _FILTERS.items():
            replaced = re.sub(rf"\|(\s*){theirs}\b", rf"|\1{ours}", code)
            if replaced != code:
                self.note(f"the filter {theirs} is called {ours}")
            code = replaced
        for old in sorted(self.steps, key=len, reverse=True):  # `steps.make plan.output`: no name in an expression
            code = re.sub(rf"\bsteps\.{re.escape(old)}(?!\w)", f"steps.{self.steps[old]}", code)
        return _STEP.sub(self._rewrite_step, code)

    def _rewrite_step(self, match: re.Match[str]) -> str:
        """Return a reference to a step by its new name; one to the step itself means its output."""
        name = match[2] or match[4] or match[5]
        new = self.steps.get(name, name)
        following = match.string[match.end() :].lstrip()[:1]
        if following in (".", "["):
            return match[0] if new == name else f"steps.{new}"
        self.note(f"steps.{new} is an object: its output is steps.{new}.output")
        return f"steps.{new}.output"
