"""Writes two pages, `python docs/reference.py`: every key of the language, and every key of `holdfast.toml`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from holdfast.blueprint.kinds import KINDS, Blueprint
from holdfast.blueprint.kinds.base import Step
from holdfast.blueprint.parts import Part
from holdfast.blueprint.schema import language_schema
from holdfast.runtime.config.key_texts import find_sections, read_key_texts
from holdfast.runtime.config.sections import File

PAGE = Path(__file__).parent / "reference.md"
HEAD = """# Which keys are there?

Every key of the language, as the step kinds define it (`python docs/reference.py` writes it), with examples in YAML.
For an editor: `holdfast schema`. [blueprint.md](blueprint.md) explains them. Keys without a default are required.
"""
SETTINGS_PAGE = Path(__file__).parent / "configuration.md"
SETTINGS_HEAD = """# Which keys has `holdfast.toml`?

Every table and key, as the configuration defines them (`python docs/reference.py` writes this page). All can be left
out, except where it says *required*; a key that is not here is an error. [Where the file is searched
for](tools.md#holdfasttoml); for an editor: [`holdfast schema config`](editor.md).
"""
SETTINGS_EXPLAINED = {
    "worker": "tools.md",
    "models": "models.md",
    "mcp": "mcp.md",
    "groups": "people.md",
    "people": "people.md",
    "notify": "notices.md",
    "access": "security.md",
    "answers": "security.md",
    "payloads": "payloads.md",
    "encryption": "encryption.md",
    "cache": "caching.md",
    "secrets": "secrets.md",
    "serve": "serve.md",
    "hooks": "events.md",
    "record": "record.md",
    "limits": "deploying.md#how-large-a-value-may-be",
}
"""The page that explains each table."""


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


def configuration() -> str:
    """The whole page of `holdfast.toml`."""
    texts = read_key_texts(File)
    rows = [
        f"| {_table(name)} | {_cell(texts[name])} | [{page.partition('#')[0]}]({page}) |"
        for name, page in SETTINGS_EXPLAINED.items()
    ]
    columns = ["| table | what it is for | more |", "|---|---|---|"]
    return "\n".join([SETTINGS_HEAD, *columns, *rows, "", *map(_settings, find_sections(File)[1:])])


def _table(name: str) -> str:
    named = str(File.model_fields[name].annotation).startswith("dict") and name != "groups"
    return f"`[{name}.NAME]`" if named else f"`[{name}]`"


def _settings(model: type[BaseModel]) -> str:
    title, _, told = (model.__doc__ or "").replace("\n", " ").partition(": ")
    texts = read_key_texts(model)
    rows = [f"| `{key}` | {_cell(texts[key])} | {_setting(model, key)} |" for key in model.model_fields]
    columns = ["| key | meaning | default |", "|---|---|---|"]
    return "\n".join([f"## {title}", "", told[:1].upper() + told[1:], "", *columns, *rows, ""])


def _setting(model: type[BaseModel], key: str) -> str:
    field = model.model_fields[key]
    if field.is_required():
        return "*required*"
    value = field.get_default()
    if isinstance(value, BaseModel):
        return "its defaults"
    return "" if value in (None, [], {}, "") else f"`{json.dumps(value)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(reference())
    SETTINGS_PAGE.write_text(configuration())
