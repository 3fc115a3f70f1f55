"""Writes docs/reference.md, every key of the language, from the step kinds: `python docs/reference.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from holdfast.blueprint.kinds import KINDS, Blueprint
from holdfast.blueprint.kinds.base import Step
from holdfast.blueprint.parts import Part
from holdfast.blueprint.schema import language_schema

PAGE = Path(__file__).parent / "reference.md"
HEAD = """# Which keys are there?

Every key of the language, as the step kinds define it (`python docs/reference.py` writes it), with examples in YAML.
For an editor: `holdfast schema`. [blueprint.md](blueprint.md) explains them. Keys without a default are required.
"""


def reference() -> str:
    """The whole page."""
    parts = {name: form for name, form in language_schema()["$defs"].items() if name != "Step" and "properties" in form}
    order = ["Blueprint", *(kind.__name__ for kind in KINDS.values())]
    names = [*order, *sorted(name for name in parts if name not in order)]
    common = [f"`{name}`" for name in Step.model_fields]
    told = f"Every step may also say {', '.join(common)}, as the kind `step` does.\n"
    return "\n".join([HEAD, told, *(_section(name, parts[name]) for name in names)])


def _models() -> dict[str, type[Part]]:
    """Every part of the language by its name."""
    found: dict[str, type[Part]] = {"Blueprint": Blueprint}
    waiting: list[type[Part]] = [Part]
    while waiting:
        for model in waiting.pop().__subclasses__():
            found[model.__name__] = model
            waiting.append(model)
    return found


def _section(name: str, form: dict[str, Any]) -> str:
    kind = next((kind for kind, model in KINDS.items() if model.__name__ == name), None)
    title = f"Kind `{kind}`" if kind else f"`{name}`"
    model = _models().get(name)
    own = {
        key: one for key, one in form["properties"].items() if kind in (None, "step") or key not in Step.model_fields
    }
    rows = [_row(key, one, model) for key, one in own.items() if key != "kind"]
    columns = ["| key | meaning | for example | default |", "|---|---|---|---|"]
    head = [f"## {title}", "", form["description"], "", *columns]
    return "\n".join([*head, *rows, ""])


def _row(key: str, form: dict[str, Any], model: type[Part] | None) -> str:
    examples = ", ".join(_code(example) for example in form.get("examples", []))
    told = [form.get("description", ""), examples, _default(key, model)]
    return " | ".join([f"| `{key}`", *(text.replace("|", "\\|") for text in told)]) + " |"


def _default(key: str, model: type[Part] | None) -> str:
    fields = model.model_fields if model else {}  # none of a short form that is no part of the language
    field = next((one for name, one in fields.items() if (one.alias or name) == key), None)
    if field is None or field.is_required():
        return ""
    value = field.get_default(call_default_factory=True)
    if value is None or value in ("", [], {}):
        return "none"
    plain = value.model_dump(exclude_defaults=True) if isinstance(value, Part) else value
    return "its defaults" if plain == {} else _code(plain)


def _code(value: Any) -> str:
    """The value as one line of YAML."""
    written = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000)
    return "`" + written.removesuffix("...\n").strip() + "`"


if __name__ == "__main__":
    PAGE.write_text(reference())
