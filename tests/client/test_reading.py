"""What is typed and written down, read as values."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.questions import Clarification, Decision, Extension, Input, InvalidAnswer, Permission, Review
from holdfast.client.answer_files import answers_for, read_entries
from holdfast.client.reading import BadUsage, parse_content, parse_input, parse_value, person, yes_or_no
from holdfast.protocol.plans import PlanReview
from tests.client.questions import ACTION, decision, question


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("42", {"type": "string"}, "42"),
        ("42", {"type": "integer"}, 42),
        ("42", {"enum": ["41", "42"]}, "42"),
        ("true", None, True),
        ("[1, 2", None, "[1, 2"),
        ("Infinity", None, "Infinity"),
        ("", None, ""),
        ("null", {"type": ["string", "null"]}, None),
    ],
)
def test_a_value_is_text_where_text_is_wanted_else_json_else_text(text: str, schema: Any, value: Any) -> None:
    assert parse_value(text, schema) == value


@pytest.mark.parametrize(
    ("text", "place"),
    [('"\\ud800"', "the value"), ('{"a": [1, "x\\uDC00"]}', "a[1]"), ('{"a": {"\\ud800": 1}}', "a: ")],
)
def test_half_a_character_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(BadUsage, match="half a character") as caught:
        parse_value(text, None)
    assert str(caught.value).startswith(place)
    assert parse_value(r'"\ud83d\ude00"', None) == "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("", ""),
        ("Yes", {"verdict": "unchanged"}),
        ("no", {"verdict": "rejected"}),
        ("no, too long, really", {"verdict": "rejected", "reason": "too long, really"}),
        ("revise, say less", "revise, say less"),
        ('{"length": 2}', {"verdict": "edited", "payload": {"who": "all", "length": 2}}),
        ('{"tone": "warm"}', {"verdict": "edited", "payload": {"who": "all", "length": 1, "tone": "warm"}}),
        ('{"verdict": "rejected"}', {"verdict": "rejected"}),
        ('{"other": 1}', {"other": 1}),
        ("hm", "hm"),
    ],
)
def test_a_review_may_be_answered_in_short(text: str, content: Any) -> None:
    shown = {"who": "all", "length": 1}
    asked = Review(message="?", payload=shown, payload_schema={"properties": {"tone": {"type": "string"}}})
    assert parse_content(text, question(asked)) == content


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("yes", {"granted": True}),
        ("Vas-y !", {"granted": True}),
        ("yes, run", {"granted": True, "scope": "run"}),
        ("no", {"granted": False}),
        ("no, too dear", {"granted": False, "reason": "too dear"}),
        ("yes but", "yes but"),
        ("yes, tomorrow", "yes, tomorrow"),
        ("always", "always"),
        ('{"granted": true}', {"granted": True}),
    ],
)
def test_a_permission_may_be_answered_in_short_and_nothing_unclear_is_a_yes(text: str, content: Any) -> None:
    assert parse_content(text, question(Permission(message="?"))) == content


def test_yes_and_no_say_so_to_what_can_be_answered_with_them() -> None:
    choice = question(Decision.model_validate({"message": "?", "options": [{"id": "accept"}, {"id": "b"}]}))
    boolean = question(Input(message="?", form={"type": "boolean"}))
    assert yes_or_no(question(Permission(message="?")), False, "no") == {"granted": False, "reason": "no"}
    assert yes_or_no(question(Review(message="?", payload=1)), True) == {"verdict": "unchanged"}
    assert (yes_or_no(choice, True), yes_or_no(boolean, False)) == ("accept", False)
    for unclear in (None, decision(), question(Input(message="?"))):
        with pytest.raises(BadUsage, match="--yes answers permissions, reviews"):
            yes_or_no(unclear, True)


def test_a_yes_to_whether_it_goes_on_gives_more() -> None:
    options = [{"id": "more", "label": "2 more"}, {"id": "finish"}, {"id": "fail"}]
    three = question(Extension.model_validate({"message": "Go on?", "options": options}))
    two = question(Extension.model_validate({"message": "Go on?", "options": [options[0], options[2]]}))
    assert (three.kind, yes_or_no(three, True), parse_content("yes", three)) == ("decision", "more", "more")
    assert (yes_or_no(two, False), parse_content("no", two), parse_content("fail", two)) == ("fail", "fail", "fail")
    with pytest.raises(BadUsage):
        yes_or_no(three, False)  # it may finish, or fail
    with pytest.raises(InvalidAnswer):
        two.asked.accept("yes but")


def test_a_boolean_takes_words() -> None:
    assert parse_content("yes", question(Input(message="?", form={"type": "boolean"}))) is True
    listed = question(Input(message="?", form={"type": "array", "items": {"type": "string"}}))
    assert [parse_content(text, listed) for text in ("a, b", "a\nb", "- a", '["a"]')] == [["a", "b"]] * 2 + [["a"]] * 2
    assert (
        parse_content("1, 2", question(Input(message="?", form={"type": "array", "items": {"type": "number"}})))
        == "1, 2"
    )


def test_a_plan_is_sent_back_to_its_planner_in_short() -> None:
    asked = PlanReview(message="?", payload={}, payload_schema={"type": "object"}, author=PlanBody(), revisable=True)
    assert parse_content("revise, say less", question(asked)) == {"verdict": "revise", "reason": "say less"}


def test_one_option_is_literal_text_and_several_are_a_list() -> None:
    assert parse_content("1", decision()) == "1"
    assert parse_content("a, b", decision(max_selections=2)) == ["a", "b"]
    assert parse_content('["a"]', decision(max_selections=2)) == ["a"]
    assert parse_content("Beta, too", decision(max_selections=2)) == ["Beta, too"]
    assert parse_content("[x", question(Clarification(message="?"))) == "[x"


def test_a_form_takes_json_and_free_text_stays_text() -> None:
    assert parse_content('{"a": 1}', question(Input(message="?", form={"type": "object"}))) == {"a": 1}
    assert parse_content('{"a": 1}', question(Input(message="?"))) == '{"a": 1}'


def test_a_form_with_a_schema_that_is_none_refuses_what_is_typed_with_the_reason() -> None:
    asked = Input(message="?", form={"type": "object", "required": "topic"})
    [(path, reason)] = question(asked).find_problems({"topic": "x"})
    assert path == "" and "required" in reason


def test_a_form_that_needs_one_word_takes_it_alone() -> None:
    form = question(Input(message="?", form=ACTION))
    assert parse_content(" retry", form) == {"action": "retry"}
    assert parse_content('{"action": "abort"}', form) == {"action": "abort"}
    assert parse_content("later", form) == "later"
    two = {**ACTION, "required": ["action", "input"]}
    assert parse_content("retry", question(Input(message="?", form=two))) == "retry"


def test_broken_json_of_an_input_is_told_where_an_object_or_a_list_is_due() -> None:
    for text, type_ in (('{"party":', "object"), ("[1", "array")):
        with pytest.raises(BadUsage, match="broken JSON: .* column"):
            parse_input(text, {"type": type_})
    assert parse_input("{party", {"type": ["object", "string"]}) == "{party"


def test_an_input_file_is_read_by_its_ending(tmp_path: Path) -> None:
    for name, text in (("a.json", '{"a": 1}'), ("a.yaml", "a: yes"), ("a.txt", "a: yes\n")):
        (tmp_path / name).write_text(text)
    read = [parse_input(f"@{tmp_path / name}", None) for name in ("a.json", "a.yaml", "a.txt")]
    assert read == [{"a": 1}, {"a": "yes"}, "a: yes\n"]
    with pytest.raises(BadUsage, match="cannot be read: No such file"):
        parse_input(f"@{tmp_path}/none", None)


def test_a_large_json_file_is_read_and_told_where_it_is_broken(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_text('"' + "x" * 3_000_000 + '"')
    (tmp_path / "broken.json").write_text('"' + "x" * 3_000_000 + '"}')
    assert parse_input(f"@{tmp_path}/large.json", None) == "x" * 3_000_000
    with pytest.raises(BadUsage, match=r"broken.json: Extra data: line 1 column 3000003"):
        parse_input(f"@{tmp_path}/broken.json", None)


def entries(tmp_path: Path, text: str) -> Any:
    (tmp_path / "answers.yaml").write_text(text)
    return read_entries(tmp_path / "answers.yaml")


def test_an_entry_serves_as_often_as_it_says_by_name_address_or_glob(tmp_path: Path) -> None:
    asked = [question(Input(message="?"), f"pipeline:p;loop:l:{n};hitl:tone") for n in (1, 2, 3)]
    given = entries(tmp_path, "[{question: tone, content: x}, {question: '*;loop:l:*', decline: true, times: 2}]")
    answers, unused = answers_for(given, asked)
    assert [(one.action, one.content) for one in answers] == [("accept", "x"), ("decline", None), ("decline", None)]
    assert unused == []
    assert answers_for(given, asked)[0] == []


def test_everything_wrong_in_a_file_of_answers_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(BlueprintError) as caught:
        entries(tmp_path, "- {question: a, contnt: x}\n- {content: x, times: 0}\n- tone\n- {question: a, decline: no}")
    told = [f"{problem.line} {problem.message}" for problem in caught.value.problems]
    assert [line[0] for line in told] == ["1", "1", "2", "2", "3", "4"]
    assert "1 unknown key 'contnt'" in told
    with pytest.raises(BadUsage, match="expected a list"):
        entries(tmp_path, "a: 1")


def test_who_answers_is_said_or_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_USER", "eva")
    assert (person(None), person("bob"), person("user:bob")) == ("user:eva", "user:bob", "user:bob")
    monkeypatch.delenv("HOLDFAST_USER")
    monkeypatch.setenv("LOGNAME", "login")
    assert person(None) == "user:login"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("1e999", "the value"),
        ('{"a": [1, -1e999]}', r"a\[1\]"),
        ('{"a": 9223372036854775808}', "a"),
        ("[" * 999, "deep"),
    ],
)
def test_json_that_cannot_be_kept_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(BadUsage, match=place):
        parse_value(text + "]" * text.count("[") if text.startswith("[[") else text, None)


@pytest.mark.parametrize(("text", "payload"), [('{"no": 7}', {"no": 7, "n": 1}), (' {"n": 2}', {"no": 5, "n": 2})])
def test_an_edit_is_no_word_whatever_its_keys_are(text: str, payload: dict[str, int]) -> None:
    asked = Review(message="?", payload={"no": 5, "n": 1})
    assert asked.accept(parse_content(text, question(asked))) == {"verdict": "edited", "payload": payload}
