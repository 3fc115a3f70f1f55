"""The core form of a blueprint as YAML that loads again. Printed by `holdfast validate --expand`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Blueprint, LoopBlock
from holdfast.blueprint.parts import Part
from holdfast.blueprint.source import AMBIGUOUS


def expand(blueprint: Blueprint) -> str:
    """Return the core form of a blueprint, with its short forms spelled out, as YAML.

    >>> from holdfast.blueprint.load import loads
    >>> print(expand(loads("steps: [{name: ask, kind: hitl, message: 'Which?', options: [yes, no]}]", name="tiny")))
    name: tiny
    steps:
    - kind: hitl
      name: ask
      message: Which?
      options:
      - id: 'yes'
        label: 'yes'
      - id: 'no'
        label: 'no'
    <BLANKLINE>
    """
    return write_yaml(write_core(blueprint))


def write_yaml(document: JSON) -> str:
    """Return a document as YAML that is read as it was, by 1.1 and by 1.2."""
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))


def write_core(part: Part) -> JSONObject:
    """Return the keys of a part, without those that have their default value."""
    core = {key: _plain(value) for key, value in _list_written(part)}
    if isinstance(part, LoopBlock) and part.conversation and part.iteration_input_mapper is None:
        core["propagation"] = {"next_input": part.propagation.next_input}  # a conversation has a default of its own
    match core.get("output"):
        case {"fields": dict(), **others} if isinstance(part, LoopBlock) and not others:
            core["output"] = {"fields": core["output"]}  # else it would be read as the short form
    return core


def _list_written(part: Part) -> Iterator[tuple[str, JSON]]:
    fields = type(part).model_fields
    for key in sorted(fields, key=lambda key: {"kind": 0, "name": 1}.get(key, 2)):
        value = part.__dict__[key]
        if fields[key].is_required() or value != fields[key].get_default():
            yield fields[key].alias or key, value


def _plain(value: object) -> JSON:
    match value:
        case Part():
            return write_core(value)
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
    return value


_OTHER_BREAKS = re.compile("[\r\x85\u2028\u2029]")
"""YAML reads them as \\n."""


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that quotes text which YAML 1.1 or 1.2 would read as something else, and writes no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if _OTHER_BREAKS.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
_Dumper.add_implicit_resolver("!ambiguous", re.compile(rf"(?:{AMBIGUOUS.pattern})\Z"), [*"-+.0123456789~nNtTfF", ""])
