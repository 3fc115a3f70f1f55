"""Elicitations as questions: what people cannot be given is refused with its place."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.activities.elicitation import BadElicitation, make_path, make_question, response_to
from holdfast.protocol.agents import InterruptAnswer


def form(**fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields}
    return {"method": "elicitation/create", "params": {"message": "Fill in.", "requestedSchema": schema}}


def page(url: str) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"mode": "url", "message": "Open it.", "url": url}}


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (form(password={"type": "string"}), "requestedSchema.properties.password: it asks for a secret"),
        (form(API_Key={"type": "string"}), "requestedSchema.properties.API_Key: it asks for a secret"),
        (form(x={"type": "string", "format": "password"}), "requestedSchema.properties.x: it asks for a secret"),
        (form(x={"type": "string", "writeOnly": True}), "requestedSchema.properties.x: it asks for a secret"),
        (form(x={"type": "object"}), "requestedSchema.properties.x: type 'object'"),
        (form(x={"type": "array", "items": {"type": "string"}}), "requestedSchema.properties.x: an array needs"),
        (form(x={"type": "string", "pattern": "("}), "requestedSchema: it is not a JSON Schema"),
        (form(x=[]), "requestedSchema.properties.x: it must be an object"),
        (page("javascript:alert(1)"), "url: it is not an https:// address"),
        (page("http://pay.example/"), "url: http:// is for this machine only"),
        (page("https://good.example@evil.example/"), "url: it holds a user"),
        (page("https://p\u0430y.example/"), "url: it is not an address of printable ASCII"),
        (page("https://[::1"), "url: Invalid IPv6 URL"),
        ({"method": "sampling/createMessage", "params": {}}, "it asks for sampling/createMessage"),
        ({"method": "elicitation/create", "params": {"message": " "}}, "it has no message"),
    ],
)
def test_what_people_cannot_be_given_is_refused_with_its_place(request_: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadElicitation) as caught:
        make_question("mcp:little/tool", request_)
    assert str(caught.value).startswith(problem)


def test_a_name_that_only_looks_like_a_secret_is_asked_for() -> None:
    assert make_question("mcp:little/tool", form(token_limit={"type": "integer"}, card={"type": "string"})).fields


def test_a_form_without_fields_is_answered_by_a_yes() -> None:
    asked = make_question("mcp:little/tool", form())
    assert (asked.read("yes"), asked.read("hm"), asked.accept({})) == ({}, None, {})


def test_a_refusal_in_words_is_a_decline_for_the_server() -> None:
    asked = make_question("mcp:little/tool", page("https://pay.example/"))
    assert response_to(asked, InterruptAnswer(content="no")) == {"action": "decline"}
    assert response_to(asked, InterruptAnswer(content="yes")) == {"action": "accept"}
    assert response_to(asked, InterruptAnswer(action="cancel")) == {"action": "cancel"}


def test_keys_of_servers_are_told_apart_however_they_look() -> None:
    assert len({make_path(key) for key in ("a\nb", "a b", "x" * 200, "x" * 201)}) == 4
