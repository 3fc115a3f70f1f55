"""Ten processes as a newcomer writes them: each loads, and a mistake in it is told once, at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.blueprint.load import parse_file

FOLDER = Path(__file__).parent / "processes"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
MISTAKES = [
    ("expense", 'assignees: ["group:managers"]', "assignees: [managers]", "steps[0].assignees[0]", "bad_value"),
    ("expense", 'default: "no, nobody decided"', 'default: "yes"', "steps[0].default", "bad_value"),
    (
        "expense",
        "when: steps.first.output and input.amount > 1000",
        "when: steps.first.output == 'yes' and input.amount > 1000",
        "steps[1].when",
        "bad_consent",
    ),
    ("expense", "'high' if input.amount", "'hihg' if input.amount", "steps[0].risk", "bad_shape"),
    ("expense", "timeout: 3d", "timeout: 3 days", "steps[0].timeout", "bad_value"),
    (
        "incident",
        "nothing: [{name: n, input: nothing}]",
        "nothin: [{name: n, input: nothing}]",
        "steps[2].branches.nothin",
        "unreachable_branch",
    ),
    ("incident", "after: 1h", "after: 10m", "steps[1].escalate[1].after", "bad_value"),
    (
        "incident",
        "steps.check.output == 'up'",
        "steps.chek.output == 'up'",
        "steps[3].loop.exit_expression",
        "unknown_name",
    ),
    ("incident", "on_deadline: ask", "on_deadline: asking", "on_deadline", "bad_value"),
    ("incident", "for: 5m", "for: 5 minutes", "steps[3].loop.body[0].for", "bad_value"),
    ("incident", "agent: sre,", "agent: sree,", "steps[0].agent", "unknown_name"),
    ("review", "['unchanged', 'edited']", "['unchanged', 'edit']", "steps[2].when", "impossible_comparison"),
    ("review", "max_loops: 2", "max_loop: 2", "steps[0].loop.max_loop", "unknown_key"),
    ("hiring", "input.applicants\n", "input.applicants | length\n", "steps[0].map.iterable_input", "bad_shape"),
    ("hiring", "output.tech.score", "output.tec.score", "steps[3].input", "unknown_field"),
    ("hiring", "output.tech.score +", "output.tech.note +", "steps[3].input", "bad_shape"),
    (
        "refund",
        'undo: {uses: release_money, arguments: {id: "{{ output.id }}"}}',
        'undo: {uses: release_money, arguments: {id: "{{ outpt.id }}"}}',
        "steps[0].steps[0].undo.arguments.id",
        "unknown_name",
    ),
    ("refund", "    finally:", "    finaly:", "steps[0].finaly", "unknown_key"),
    ("refund", "on_decline: fail", "on_decline: stop", "steps[0].steps[1].on_decline", "bad_value"),
    ("refund", "error.type if error", "error.typ if error", "steps[0].finally[0].arguments.text", "unknown_name"),
    ("label", 'quorum: "{{ 2 if', "quorum: \"{{ 'two' if", "steps[0].map.body[0].quorum", "bad_shape"),
    ("label", "remind_every: 4h", "remind_every: 4m", "steps[0].map.body[0].remind_every", "bad_value"),
    (
        "label",
        'assignees: "{{ input.labellers }}"',
        'assignees: "{{ input.texts | length }}"',
        "steps[0].map.body[0].assignees",
        "bad_shape",
    ),
    (
        "label",
        "selectattr('label', 'eq', 'spam') | list | length }}\"}",
        "selectattr('label', 'eqq', 'spam') | list | length }}\"}",
        "steps[0].map.finalize.output.spam",
        "bad_expression",
    ),
    (
        "oncall",
        "steps.ack.status == 'failed'",
        "steps.ack.status == 'expired'",
        "steps[1].condition_expression",
        "impossible_comparison",
    ),
    ("oncall", "on_error: continue", "on_error: contine", "steps[0].on_error", "bad_value"),
    ("oncall", "      false_alarm: [", "      false_alert: [", "steps[1].branches.false_alert", "unreachable_branch"),
    ("negotiation", "next: answer", "next: anwser", "steps[0].states.offer.next", "unknown_name"),
    (
        "negotiation",
        "counter: offer, leave: broken",
        "counter: offer",
        "steps[0].states.answer.next.to",
        "uncovered_value",
    ),
    ("negotiation", "leave: broken", "leave: left", "steps[0].states.answer.next.to.leave", "unknown_name"),
    ("negotiation", "start: offer", "start: ofer", "steps[0].start", "unknown_name"),
    (
        "negotiation",
        "true: signed, false: broken",
        "yes: signed, no: broken",
        "steps[0].states.sign.next.value",
        "bad_consent",
    ),
    (
        "purchase",
        'timeout: "{{ 1 if input.amount < 100 else 7 }}d"',
        'timeout: "{{ input.board }}"',
        "steps[0].timeout",
        "bad_shape",
    ),
    ("purchase", "default: wait", "default: waiting", "steps[0].default", "bad_value"),
    (
        "purchase",
        "steps.vote.output == 'buy'",
        "steps.vote.output == 'bought'",
        "steps[1].when",
        "impossible_comparison",
    ),
    ("purchase", "options: [buy, wait, drop]", "options: [buy, wait, Buy]", "steps[0].options[2].id", "duplicate_name"),
    (
        "purchase",
        'quorum: "{{ (input.board | length) // 2 + 1 }}"',
        'quorum: "{{ input.board // 2 }}"',
        "steps[0].quorum",
        "bad_shape",
    ),
    ("report", "kind: clarify", "kind: clarfy", "steps[0].kind", "unknown_kind"),
    ("report", "required: [done, blocked]", "required: [done, blockd]", "steps[0].schema.required", "bad_value"),
    ("report", "!= 'rejected'", "!= 'refused'", "steps[3].when", "impossible_comparison"),
    ("report", "steps.ok.output }}", "steps.ok.ouput }}", "steps[3].arguments.text", "unknown_name"),
    (
        "report",
        'goal: "This week\'s report of {{ input.team }}"',
        'goal: "This week\'s report of {{ input.team }"',
        "steps[0].goal",
        "bad_expression",
    ),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_process_has_no_mistake(name: str) -> None:
    assert parse_file(FOLDER / f"{name}.yaml").problems == []


@pytest.mark.parametrize(("name", "right", "wrong", "path", "code"), MISTAKES)
def test_a_mistake_is_told_once_at_its_place(
    tmp_path: Path, name: str, right: str, wrong: str, path: str, code: str
) -> None:
    text = (FOLDER / f"{name}.yaml").read_text()
    assert text.count(right) >= 1
    (tmp_path / "flow.yaml").write_text(text.replace(right, wrong, 1))
    assert [(one.path, one.code) for one in parse_file(tmp_path / "flow.yaml").problems] == [(path, code)]
