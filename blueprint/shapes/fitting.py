"""Values that go somewhere: what a step, a tool or an import is given, and what a step gives, must fit there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.findings import is_literal
from holdfast.blueprint.json_values import JSON, JSONObject, same
from holdfast.blueprint.kinds import AnyStep, Blueprint, Step
from holdfast.blueprint.kinds.knowledge import ToolShapes
from holdfast.blueprint.kinds.template_values import TemplateForm
from holdfast.blueprint.parts import Template
from holdfast.blueprint.reducers import split_keys
from holdfast.blueprint.shape import Shape, make_constant
from holdfast.blueprint.shapes.reader import ExpressionReader
from holdfast.blueprint.shapes.report import Report, describe_types, describe_values, suggest_key

_DEEPEST = 4


def find_misfit(value: Shape, wanted: Shape, path: str = "", level: int = 0) -> str | None:
    """Return why no value of a shape fits another, in words; None if one may.

    >>> find_misfit(Shape({"type": "string"}), Shape({"type": "number"}))
    'it is a text, not a number'
    """
    name = path or "it"
    if not value.types & wanted.types and value.types != {"null"}:
        return f"{name} is {describe_types(value)}, not {describe_types(wanted)}"
    if value.values and wanted.values and not any(same(one, other) for one in value.values for other in wanted.values):
        return f"{name} is {describe_values(value.values)}, not {describe_values(wanted.values)}"
    if level <= _DEEPEST and value.types == {"list"}:
        of_members = (find_misfit(one, wanted.element, f"an element of {name}", level + 1) for one in value.members)
        of_all = find_misfit(value.element, wanted.element, f"each element of {name}", level + 1)
        return of_all or next(filter(None, of_members), None)
    if level > _DEEPEST or value.types != {"object"} or len(wanted.variants) != 1:
        return None
    return next(_find_misfits_inside(value, wanted, path, level), None)


def _find_misfits_inside(value: Shape, wanted: Shape, path: str, level: int) -> Iterator[str]:
    for key in sorted(wanted.required):
        if "object" in wanted.types and value.find_key(key) is None:
            yield f"{path or 'it'} lacks {key!r}"
    for key in sorted(value.required):
        inner, place = value.find_key(key), f"{path}.{key}" if path else key
        declared = wanted.find_key(key)
        if declared is None and wanted.types == {"object"}:
            hint = did_you_mean(key, wanted.keys)
            yield f"{path or 'it'} may not have {key!r}" + (f": {hint}" if hint else "")
        elif declared is not None and inner is not None and (wrong := find_misfit(inner, declared, place, level + 1)):
            yield wrong


def check_input(step: AnyStep, value: Shape, path: str, report: Report) -> None:
    """Report an input that does not fit the step's `input_schema`."""
    if step.input_schema is None or step.input_schema_describes_answer:
        return
    if wrong := find_misfit(value, Shape(step.input_schema)):
        hint = "see input_schema of the step"
        report.add(f"{path}.{step.input_key}", "bad_shape", f"the input of {step.name} does not fit: {wrong}", hint)


def check_output(step: AnyStep, given: Shape, path: str, report: Report) -> None:
    """Report an `output_schema` that nothing fits of what the step gives."""
    if step.output_schema is None:
        return
    if wrong := find_misfit(given, Shape(step.output_schema)):
        hint = "write input_schema for the form of an answer" if given.question else "change output_schema, or the step"
        message = f"the output of {step.name} never fits output_schema: {wrong}"
        report.add(f"{path}.output_schema", "bad_shape", message, hint)


def check_form(form: TemplateForm, reader: ExpressionReader, template: Template, key: str) -> Shape:
    """Report a template that cannot give what its key needs; constants are checked where they are read.

    Args:
        form: What is needed, also of each element of a list.
        reader: Of the template.
        template: As it is written.
        key: Its path in the step.

    Returns:
        What it gives.
    """
    value = reader.render(template)
    if is_literal(template):
        return value
    parts = list(reader.list_parts(template)) if isinstance(template, list) else [(reader, template)]
    for one, part in parts:
        if (wrong := _find_unreadable(form, one.look_into(part), one.write_samples(part, form.parts))) is not None:
            one.report("bad_shape", f"{key!r} does not fit: {wrong}", "see `holdfast docs reference`")
            break
    return value


def _find_unreadable(form: TemplateForm, value: Shape, samples: list[str]) -> str | None:
    """Return why what a template gives cannot be read, in words; None if it may be."""
    if wrong := find_misfit(value, Shape(form.schema)):
        return wrong
    if form.keys and value.types <= {"object", "null"} and not any(value.find_key(key) for key in form.keys):
        return f"it has none of {', '.join(form.keys)}"
    known: list[JSON] = [*(value.values or [[element] for element in value.element.values or ()])]
    reasons = [_say_unreadable(form, one) for one in samples]
    if samples and all(reasons):
        return reasons[0] if len(samples) == 1 else "it cannot be read, whatever its values are"
    return next(filter(None, (_say_unreadable(form, one) for one in known)), None)


def _say_unreadable(form: TemplateForm, value: JSON) -> str | None:
    try:
        form.read(value)
    except ValueError as error:
        return str(error)
    return None


def check_import(step: AnyStep, given: Mapping[str, Shape], blueprint: Blueprint, path: str, report: Report) -> None:
    """Report an input that does not fit the `inputs` of the blueprint that the step runs.

    Args:
        given: What its templates give, by their path in the step; "" is its input.
    """
    inner = blueprint.imports.get(step.import_alias or "")
    if inner is None or inner.inputs is None:
        return
    key = "config.input" if "config.input" in given else ""
    if wrong := find_misfit(given[key], Shape(_drop_required(inner.inputs))):
        message = f"the input of {step.import_alias} does not fit: {wrong}"
        hint = f"see inputs of the import {step.import_alias}"
        report.add(f"{path}.{key or step.input_key}", "bad_shape", message, hint)


def check_import_outputs(step: Step, context: Shape, path: str, report: Report) -> None:
    """Report what a step takes over of the context of an import that has no such key.

    Args:
        context: What is known of the context of the import.
    """
    config = step.__dict__.get("config")
    for source in config.outputs if config is not None else ():
        here, place, name = context, f"{path}.config.outputs.{source}", f"the context of {step.import_alias}"
        for key in split_keys(source):
            found = here.find_key(key)
            if found is None:
                report.add_key(place, "unknown_field", f"{name} has no {key!r}", suggest_key(key, here))
                break
            if not here.lists(key) and here.keys:
                report.warn_key(place, "unlisted_key", f"nothing says that {name} has {key!r}", suggest_key(key, here))
                break
            here = found


def _drop_required(inputs: JSONObject) -> JSONObject:
    """Return the schema of an input without the need for what has a default."""
    match inputs:
        case {"required": list(required), "properties": dict(properties)}:
            named = {key for key, schema in properties.items() if isinstance(schema, dict) and "default" in schema}
            return {**inputs, "required": [key for key in required if key not in named]}
    return inputs


def check_arguments(step: AnyStep, value: Shape, tools: ToolShapes, path: str, report: Report) -> None:
    """Report arguments that a tool does not take, and those that it lacks; their types may be converted.

    Args:
        value: What the step's `arguments` give, or its input.
        tools: What is known of the tools.
    """
    if (tool := step.__dict__.get("uses")) and (step.input_key == "arguments" or step.on_error != "ask"):
        check_call(tool, step.input_key, value, tools, path, report)  # a person who is asked may give another input
    for index, part in enumerate(step.plan_body.steps if step.plan_body is not None else ()):
        if part.arguments is not None and len(part.tools) == 1:
            wanted = tools.parameters.get(part.tools[0])
            _check_names(make_constant(part.arguments), wanted, f"{path}.plan.steps[{index}].arguments", report)


def check_call(tool: str, key: str, given: Shape, tools: ToolShapes, path: str, report: Report) -> None:
    """Report what a tool cannot be called with.

    Args:
        tool: Its name.
        key: The path in the step of what it is given: its arguments by name, or its input.
        path: The path of the step.
    """
    wanted = tools.parameters.get(tool)
    if wanted is None:
        return
    if key.endswith("arguments"):
        _check_names(given, wanted, f"{path}.{key}", report)
    elif len(wanted.keys) == 1:
        _check_input_of_one(tool, given, wanted, f"{path}.{key}", report)
    else:
        _check_input_of_several(tool, given, wanted, f"{path}.{key}", report)


def _check_input_of_one(tool: str, given: Shape, wanted: Shape, path: str, report: Report) -> None:
    """Report an object that is neither the one argument of a tool, nor has that alone under its name."""
    [key] = wanted.keys
    argument, others = wanted.find_key(key), sorted(given.required - {key})
    if argument is None or argument.may_be("object") or given.types != {"object"} or not others:
        return
    if wanted.find_key(others[0]) is None:  # it does not take any name, by `**`
        message = f"{tool} takes {key}, which is {describe_types(argument)}, and its input has {others[0]!r}"
        report.add(path, "bad_shape", message, did_you_mean(others[0], [key]) or f"write arguments: {{{key}: …}}")


def _check_input_of_several(tool: str, given: Shape, wanted: Shape, path: str, report: Report) -> None:
    """Report an input that is no object where a tool needs several arguments: only an object has their names."""
    needed = [key for key in wanted.keys if key in wanted.required]
    if len(needed) < 2:
        return
    if not given.may_be("object"):
        message = f"{tool} takes several arguments ({', '.join(wanted.keys)}), and its input is {describe_types(given)}"
        report.add(path, "bad_shape", message, f"write arguments: {{{', '.join(f'{key}: …' for key in needed)}}}")
    elif given.types <= {"object", "null"}:
        _check_names(given, wanted, path, report)


def _check_names(given: Shape, wanted: Shape | None, path: str, report: Report) -> None:
    if wanted is None:
        return
    for key in sorted(given.required):
        if wanted.find_key(key) is None:
            hint = did_you_mean(key, wanted.keys) or f"it takes {', '.join(wanted.keys) or 'none'}"
            report.add(f"{path}.{key}", "unknown_field", f"the tool takes no argument {key!r}", hint)
    for key in sorted(wanted.required):
        if given.find_key(key) is None:
            hint = f"it takes {', '.join(wanted.keys)}"
            report.add(path, "bad_shape", f"the tool needs the argument {key!r}", hint)
