"""What an agent's model sees beside its input: files and data, checked before any model does."""

from __future__ import annotations

import pytest

from holdfast.blueprint.errors import BlueprintError
from tests.conftest import Harness

AGENT = """
steps:
  - name: look
    agent: {{model: "scripted:replies.yaml"{more}}}
    input: Look.
    attachments: [{attachment}]
"""
PNG = "iVBORw0KGgo="


def look(attachment: str, more: str = "") -> str:
    return AGENT.format(attachment=attachment, more=more)


async def test_the_model_sees_what_a_step_gives_it(house: Harness) -> None:
    house.script("look: ['{{ messages[-1].content }} {{ messages[-1].files }}']")
    attachment = "{name: 'a-{{ input.n }}.png', data: '{{ input.data }}'}, {name: b.md, text: '# {{ input.n }}'}"
    run = await house.start(look(attachment), {"n": 3, "data": PNG})
    output = await house.output(run)
    assert output.startswith("Look. ") and '"a-3.png"' in output and '"image/png"' in output and '"# 3"' in output


async def test_an_agent_with_tools_sees_it_too(house: Harness) -> None:
    house.script("look: ['{{ messages[0].files | length }}']")
    run = await house.start(look(f"{{name: a.png, data: {PNG}}}", ", tools: [stringy]"))
    assert await house.output(run) == 1


FAILURES = {
    "{name: '{{ input.archive }}', data: eA==}": ("bad_attachment", "a.zip is application/octet-stream"),
    "{name: a.bin, type: image/png, text: x}": ("bad_attachment", "its content is not image/png"),
    "{name: a.png, data: '{{ input.nowhere }}'}": ("bad_attachment", "not base64"),
    "{name: a.png, url: '{{ input.nowhere }}'}": ("bad_attachment", "not a web address"),
    "{name: a.png, file: none.png}": ("attachment_refused", "this worker may not show files"),
    "{name: a.txt, text: '{{ input.long }}'}": ("attachment_too_large", "give a `file` of the worker, or a `url`"),
}


@pytest.mark.first_row
@pytest.mark.parametrize("attachment", FAILURES)
async def test_what_no_model_takes_fails_with_its_place(house: Harness, attachment: str) -> None:
    house.script("look: [seen]")
    values = {"nowhere": "ftp://x", "archive": "a.zip", "long": "x" * 530_000}
    run = await house.start(look(attachment), values)
    error = (await house.result(run)).error
    assert error is not None and error.address == "pipeline:test;agent:look"
    type_, message = FAILURES[attachment]
    assert error.type == type_ and message in error.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{name: s, attachments: [{name: a, text: x}]}", "'attachments' belongs to steps that run an agent"),
        (
            "{name: s, agent: {model: echo}, attachments: [{name: a, text: x, url: y}]}",
            "the attachment has text and url",
        ),
        ("{name: s, agent: {model: echo}, attachments: [{name: a.png, url: a.png}]}", "not a web address"),
        ("{name: s, agent: {model: echo}, attachments: [{name: a, type: a/zip, text: x}]}", "no model takes a/zip"),
        ("{name: s, agent: {model: echo, output_mode: native}}", "'output_mode' belongs to outputs with a schema"),
    ],
)
def test_what_can_never_work_is_refused_before_it_runs(house: Harness, text: str, message: str) -> None:
    with pytest.raises(BlueprintError, match=message):
        house.load(f"steps: [{text}]")
