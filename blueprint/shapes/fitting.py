"""Values that go somewhere: what is written to the context, and what a step or an import is given, must fit there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.findings import is_literal
from holdfast.blueprint.json_values import JSON, JSONObject, same
from holdfast.blueprint.kinds import AnyStep, Blueprint
from holdfast.blueprint.kinds.knowledge import ToolShapes
from holdfast.blueprint.kinds.template_values import TemplateForm
from holdfast.blueprint.parts import Template
from holdfast.blueprint.reducers import split_keys
from holdfast.blueprint.shape import Shape, make_constant
from holdfast.blueprint.shapes.context import Context, is_changed
from holdfast.blueprint.shapes.reader import ExpressionReader
from holdfast.blueprint.shapes.report import Report, describe_types, describe_values, quote, suggest_key

_DEEPEST = 4
_WRITE = re.compile(r"\.(set|append|merge)\.value")


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
        return find_misfit(value.element, wanted.element, f"each element of {name}", level + 1)
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


def check_write(target: str, verb: str, value: Shape, context: Shape, path: str, report: Report) -> None:
    """Report a write to a context of a known shape that would fail the step.

    Args:
        target: The context path that is written to.
        verb: `set`, `append` or `merge`.
        value: What is written.
        context: What the author's schema says of the context.
        path: The path in the document of the target.
        report: Where a mistake goes.
    """
    keys, here = split_keys(target), context
    for index, key in enumerate(keys):
        name = ".".join(["context", *keys[:index]])
        found = here.find_key(key)
        if found is None and here.may_be("object"):
            hint = suggest_key(key, here)
            return report.add(path, "unknown_field", f"{name} may not have {key!r}", hint, rf"\b({re.escape(key)})\b")
        if found is None:
            return report.add(
                path, "bad_shape", f"{name} is {describe_types(here)}, and holds no keys", "write beside it"
            )
        here = found
    whole = ".".join(["context", *keys])
    holder = {"append": "list", "merge": "object"}.get(verb)
    if holder is not None and not here.may_be(holder, "null"):
        change = {"append": "appended to it", "merge": "merged into it"}[verb]
        message = f"{whole} is {describe_types(here)}: nothing can be {change}"
        return report.add(path, "bad_shape", message, "write set: instead, or change context_schema")
    wanted, done = (
        (here.element, "appended") if verb == "append" and here.types <= {"list", "null"} else (here, "written")
    )
    if verb in ("set", "append") and (wrong := find_misfit(value, wanted)) is not None:
        hint = "write a value that fits context_schema"
        report.add(path, "bad_shape", f"what is {done} to {whole} does not fit: {wrong}", hint)
    return None


def _check_holder(target: str, verb: str, context: Context, path: str, report: Report) -> None:
    """Report a write to, or below, a value that the context begins with, and that cannot take it."""
    if (holder := context.find_holder(target, verb)) is None:
        return
    name, value = holder
    last, begins = name.rpartition(".")[2], _describe_beginning(value)
    if verb == "append" and split_keys(target) == split_keys(name):
        message, hint = "and nothing can be appended to it", f"let it begin as a list: {last}: []"
    else:
        message, hint = "and holds no keys", f"write beside it, or let it begin as an object: {last}: {{}}"
    report.add(path, "bad_shape", f"context.{name} begins as {begins}, {message}", hint)


def _describe_beginning(value: JSON) -> str:
    match value:
        case list():
            return "a list"
        case dict():
            return "an object"
    return quote(value)


def check_writes(step: AnyStep, output: Shape, context: Context, path: str, report: Report) -> None:
    """Report what of a step's output cannot be written where the step says."""
    if step.sink_to is not None:
        check_write(step.sink_to, "set", output, context.declared_shape, f"{path}.sink_to", report)
        _check_holder(step.sink_to, "set", context, f"{path}.sink_to", report)
    if step.updates_context and output.types == {"object"}:
        for key in sorted(output.required):
            if (value := output.find_key(key)) is not None:
                check_write(key, "set", value, context.declared_shape, f"{path}.updates_context", report)


def check_operation(step: AnyStep, key: str, value: Shape, context: Context, path: str, report: Report) -> None:
    """Report a write before, between or after iterations that would fail.

    Args:
        key: The path in the step of a value that is rendered there, such as `loop.init[0].set.value`.
        path: The path of the step.
    """
    if (match := _WRITE.search(key)) is None or key.endswith("]"):
        return
    place = key.removesuffix(".value") + ".target"
    target = str(_find_at(step, place))
    before = report.mistakes
    check_write(target, match[1], value, context.declared_shape, f"{path}.{place}", report)
    if match[1] == "merge" and not is_literal(_find_at(step, key)) and not value.may_be("object", "text"):
        message = f"what is merged into {target} is {describe_types(value)}, and no object"
        report.add(f"{path}.{key}", "bad_shape", message, "write a mapping, such as value: {count: 1}")
    if report.mistakes > before:
        return
    index = re.search(r"\.init\[(\d+)\]", key)
    begun = context.begin_in(step, int(index[1]) if index else None)
    _check_holder(target, match[1], begun, f"{path}.{place}", report)


def check_append_after(
    step: AnyStep, key: str, body: Sequence[tuple[AnyStep, Shape]], path: str, report: Report
) -> None:
    """Report an append between iterations to what a step of the body has written there, if that is no list.

    Args:
        key: The path in the step of the value that is appended, such as `loop.state[0].append.value`.
        body: The steps of the body, each with its output.
    """
    if ".state[0].append" not in key or key.endswith("]"):
        return
    place = key.removesuffix(".value") + ".target"
    keys = split_keys(str(_find_at(step, place)))
    for one, output in reversed(body):
        if one.sink_to is not None and split_keys(one.sink_to) == keys:
            if one.when is None and one.on_error == "fail" and not output.may_be("list", "null"):
                message = f"{one.name} writes {describe_types(output)} there, and nothing can be appended to that"
                report.add(f"{path}.{place}", "bad_shape", message, "append to another path, or leave sink_to out")
            return
        if one.blocks() or one.updates_context or is_changed(one):
            return


def _find_at(step: AnyStep, place: str) -> object:
    """Return what stands at a path of a step, such as `loop.init[0].set.target`."""
    found: Any = step
    for name, index in re.findall(r"(\w+)(?:\[(\d+)\])?", place):
        found = getattr(found, name)
        found = found[int(index)] if index else found
    return found


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
    if tool := step.__dict__.get("uses"):
        wanted = tools.parameters.get(tool)
        if step.input_key == "arguments":
            _check_names(value, wanted, f"{path}.arguments", report)
        elif wanted is not None and step.on_error != "ask":  # a person may give another input
            _check_input_of_several(tool, value, wanted, f"{path}.{step.input_key}", report)
    for index, part in enumerate(step.plan_body.steps if step.plan_body is not None else ()):
        if part.arguments is not None and len(part.tools) == 1:
            wanted = tools.parameters.get(part.tools[0])
            _check_names(make_constant(part.arguments), wanted, f"{path}.plan.steps[{index}].arguments", report)


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
