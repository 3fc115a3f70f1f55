"""Authors' kinds of questions in a `hitl` step: its keys become the settings of the kind, and the kind becomes data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from holdfast.blueprint.expressions.error import nearest
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.schema_forms import Schema, set_form
from holdfast.blueprint.questions import QuestionKind, define_kind, list_kinds_for_steps
from holdfast.blueprint.questions.custom import (
    describe_unknown,
    find_kind,
    read_settings,
    setting_names,
)
from holdfast.blueprint.source import PlacedDict, plain


def write_definition(name: str, step: PlacedDict, path: str, expansion: Expansion, own: Sequence[str]) -> PlacedDict:
    """Return the step with the data of its kind as `ask`, made of the settings that stand beside it.

    Args:
        name: The kind that `ask` names, which is none of ours.
        step: The step as its author wrote it.
        path: The path of the step.
        expansion: Which gets the problems.
        own: The keys that every `hitl` step has.
    """
    step = step.copy()
    _, places = step.take("ask")
    if (kind := find_kind(name, expansion.folder)) is None:
        message, hint = describe_unknown(name, expansion.folder)
        expansion.add(places[1], f"{path}.ask", "bad_value", message, hint)
        if (meant := nearest(name, list_kinds_for_steps())) is not None:
            step.put("ask", meant, places)
            return step
        for key in [key for key in step if key not in own]:  # settings of the kind, perhaps
            step.take(key)
        step.put("ask", PlacedDict.at(places[1], name="unknown", answer={}), places)
        return step
    for key in [key for key in setting_names(kind) if key in own]:
        message = f"the kind {kind.kind!r} cannot be asked in a step: its field {key!r} is a key of every hitl step"
        expansion.add(places[1], f"{path}.ask", "conflict", message, "give the field another name")
    settings = _take_settings(kind, step, path, expansion, own)
    try:
        definition = define_kind(read_settings(kind, plain(settings))).model_dump(mode="json")
    except ValidationError as error:
        for one in error.errors(include_url=False):
            key = str(next(iter(one["loc"]), ""))
            place = settings.value_place(key) if key in settings else places[1]
            where = ".".join(map(str, one["loc"]))
            code = "missing_key" if one["type"] == "missing" else "bad_value"
            text = f"{where!r} of ask: {kind.kind}: {one['msg'][:1].lower()}{one['msg'][1:]}"
            expansion.add(place, f"{path}.{where}" if where else f"{path}.ask", code, text)
    except ValueError as error:
        expansion.add(places[1], f"{path}.ask", "bad_value", f"the kind {kind.kind!r} cannot be used: {error}")
    else:
        step.put("ask", PlacedDict.at(places[1], **definition), places)
    return step


def _take_settings(
    kind: type[QuestionKind], step: PlacedDict, path: str, expansion: Expansion, own: Sequence[str]
) -> PlacedDict:
    """Take the settings of a kind out of a step and return them; what is hardly misspelt is a problem."""
    settings, names = PlacedDict(step.place), setting_names(kind)
    for key in [key for key in names if key in step and key not in own]:
        settings.put(key, *step.take(key))
    for key in [key for key in step if key not in own and nearest(key, names)]:
        _, places = step.take(key)
        hint = f"did you mean {nearest(key, names)!r}?"
        expansion.add(places[0], f"{path}.{key}", "unknown_key", f"unknown key {key!r}", hint)
    return settings


def allow_kinds(definitions: Schema, kinds: Mapping[str, type[QuestionKind]]) -> None:
    """Allow the names of all kinds, and beside an author's its settings, in the JSON Schema of the step."""
    definition = definitions["Hitl"]
    names = {"enum": [*list_kinds_for_steps(), *kinds], "default": "input"}
    set_form(definition, "ask", {"anyOf": [names, {"$ref": "#/$defs/KindDefinition"}]})
    rules = definition.setdefault("allOf", []) if kinds else []
    holders: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        schema = kind.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
        definitions |= {f"{name}.{model}": form for model, form in schema.get("$defs", {}).items()}
        forms = {key: schema["properties"][key] for key in setting_names(kind)}
        rules.append(_rule([name], then={"properties": forms, "required": schema.get("required", [])}))
        for key in forms:
            holders.setdefault(key, []).append(name)
    for key, asks in holders.items():
        definition["properties"].setdefault(key, {"description": f"For `ask: {' or '.join(asks)}`."})
        rules.append(_rule(asks, otherwise={"properties": {key: False}}))


def _rule(asks: Sequence[str], *, then: Schema | None = None, otherwise: Schema | None = None) -> Schema:
    """Return the rule of what holds where `ask` is one of these kinds, and where it is not."""
    condition: Schema = {"properties": {"ask": {"enum": list(asks)}}, "required": ["ask"]}
    return {"if": condition, **({"then": then} if then else {}), **({"else": otherwise} if otherwise else {})}
