"""Lists in what models and people wrote: what is one, and what is prose."""

from typing import Any

import pytest

from holdfast.blueprint.expressions.lists import list_in, spoken_items

TWO = ["Ana", "Ben"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('["Ana", "Ben"]', TWO),
        ('```json\n["Ana", "Ben"]\n```', TWO),
        ('Sure:\n```\n["Ana", "Ben"]\n```\nDone.', TWO),
        ('Here they are: ["Ana", "Ben"]', TWO),
        ('The guests\n["Ana", "Ben"]\nas asked', TWO),
        ("- Ana\n- Ben", TWO),
        ("* Ana\n\n* Ben\n", TWO),
        ("Here they are:\n1. Ana\n2. Ben", TWO),
        ("```\n- Ana\n- Ben\n```", TWO),
        ("• Ana", ["Ana"]),
        ('{"count": 2, "names": ["Ana", "Ben"]}', {"count": 2, "names": TWO}),
        ('The result: {"names": ["Ana"]}.', {"names": ["Ana"]}),
        ("[]", []),
    ],
)
def test_a_list_is_read_however_it_is_written(text: str, found: Any) -> None:
    assert list_in(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "Ana",
        "Ana, Ben",
        "Ana\nBen",
        "Ana [1] and Ben [2]",
        "See [1]",
        "- Ana\n- Ben\nbut not Cleo",
        "- Ana\n  - Ben",
        "- Ana\n1. Ben",
        'Either: ["Ana"]\nor: ["Ben"]',
        "```\nAna\n```\n```\nBen\n```",
        '{"a": [1], "b": [2]}',
        '{"name": "Ana"}',
        "[Ana, Ben",
        "2024. was a good year - Ana",
    ],
)
def test_prose_is_no_list(text: str) -> None:
    assert list_in(text) is None


def test_what_a_person_says_in_a_word_is_one_item() -> None:
    assert (spoken_items("New York"), spoken_items("Ana\nBen"), spoken_items("Ana, Ben")) == (["New York"], TWO, None)
