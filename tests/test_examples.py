"""Every example loads, is valid for editors, and runs to its end."""

from __future__ import annotations

import jsonschema_rs
import pytest

import examples.agree_on_brief.briefs
import examples.approve_payment.payments
import examples.book_flight.flights
import examples.check_expenses.rates
import examples.connect_service.question_kinds
import examples.connect_service.services
import examples.research_subject.sources  # noqa: F401 registers the tools
from holdfast.blueprint.core import expand
from holdfast.blueprint.load import load, loads
from holdfast.blueprint.questions.custom import known_kinds
from holdfast.blueprint.schema import language_schema
from holdfast.blueprint.source import plain, read
from holdfast.protocol import guard
from holdfast.protocol.answers import Refusal
from tests.conftest import Harness
from tests.repository import EXAMPLES, ROOT


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_loads_and_its_core_form_is_the_same_blueprint(path) -> None:
    blueprint = load(path)
    assert loads(expand(blueprint)) == blueprint


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_fits_the_schema_for_editors(path) -> None:
    jsonschema_rs.validate(language_schema(known_kinds()), plain(read(path.read_text(), path.name)[0]))


def test_every_example_is_told_of_where_they_are_listed() -> None:
    listed = (ROOT / "examples" / "README.md").read_text()
    folders = sorted(path.name for path in (ROOT / "examples").iterdir() if path.is_dir() and path.name[0].isalpha())
    assert [name for name in folders if f"| [{name}](" not in listed] == [], "add a row to examples/README.md"


async def start(house: Harness, name: str, input: object) -> str:
    run = await house.runs.start(load(ROOT / "examples" / name / f"{name}.yaml"), input)
    house.started.append(run)
    return run


@pytest.mark.slow
async def test_the_conversation_asks_three_times_and_writes_the_brief(house: Harness) -> None:
    run = await start(house, "write_brief", "A poem")
    asked = await house.answered(run, "my team", "short and warm", "the merger")
    assert asked == ["Who is it for?", "How long may it be, and in which tone?", "What must it not mention?"]
    output = await house.output(run)
    assert output["goal"] == "A poem"
    assert "User: short and warm" in output["brief"]


@pytest.mark.slow
async def test_the_clarification_writes_what_was_agreed_on(house: Harness, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    run = await start(house, "agree_on_brief", "A poem for the party")
    asked = await house.answered(run, "my team", 80, "warm", {"verdict": "unchanged"})
    assert asked[:3] == ["Who is it for?", "How many words may it have?", "Which tone?"]
    assert await house.output(run) == "Written into briefs/a-poem-for-the-party.md."
    assert "- **tone**: warm" in (tmp_path / "briefs" / "a-poem-for-the-party.md").read_text()


@pytest.mark.slow
async def test_large_expenses_are_decided_on_and_rates_are_looked_up_once(house: Harness) -> None:
    rows = [("Train", 40, "EUR"), ("Flight", 400, "USD"), ("Hotel", 300, "EUR"), ("Taxi", 20, "CHF")]
    expenses = [{"what": what, "amount": amount, "currency": currency} for what, amount, currency in rows]
    run = await start(house, "check_expenses", {"expenses": expenses})
    assert await house.answered(run, "pay", "refuse") == ["Flight for 360.0 EUR?", "Hotel for 300.0 EUR?"]
    assert await house.output(run) == {"paid": 421.0, "refused": ["Hotel"]}


async def test_of_three_opinions_the_majority_decides(house: Harness) -> None:
    run = await start(house, "gather_opinions", "A text.")
    await house.answer(run, "publish")
    assert await house.output(run) == "publish"


async def test_the_payment_is_refused_unless_a_person_says_pay(house: Harness) -> None:
    run = await start(house, "approve_payment", {"payee": "Ana", "amount": 12})
    await house.answer(run, "Do not pay")
    assert await house.output(run) == "Not paid: Ana, 12 EUR."


@pytest.mark.slow
async def test_the_text_is_revised_until_it_is_good(house: Harness) -> None:
    run = await start(house, "revise_text", "Tea")
    messages = await house.answered(run, "warmer please", "good")
    assert messages[0].endswith("Topic: Tea. Feedback: none yet")
    assert messages[1].endswith("Feedback: warmer please")
    assert (await house.output(run)).startswith("Second draft.")


@pytest.mark.slow
async def test_a_payment_above_the_limit_needs_a_yes(house: Harness, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    run = await start(house, "pay_invoice", "Invoice of Ana")
    question = await house.one(run)
    assert (question.kind, question.info["args"]["amount"]) == ("permission", 120)
    await house.answer(run, {"granted": False, "reason": "paid already"})
    assert await house.output(run) == "Done. The tool said: not approved: paid already"
    run = await start(house, "pay_invoice", "Invoice of Ana")
    await house.answer(run, {"granted": True})
    assert '"paid":120.0' in await house.output(run)


async def test_a_booking_is_looked_at_and_changed(house: Harness) -> None:
    run = await start(house, "book_flight", "A flight to Beijing")
    payload = (await house.one(run)).info["payload"]
    await house.answer(run, {"verdict": "edited", "payload": {**payload, "day": "2026-12-02"}})
    assert "02 December 2026" in await house.output(run)


@pytest.mark.slow
async def test_follow_up_questions_are_asked_until_enough_is_known(house: Harness) -> None:
    run = await start(house, "plan_holiday", "A holiday")
    assert await house.answered(run, "Crete", "sea") == ["Where do you want to go?", "Sea or mountains?"]
    assert await house.output(run) == "A week in Crete, by the sea."


@pytest.mark.slow
async def test_the_tool_of_an_inner_agent_asks_through_its_supervisor(house: Harness) -> None:
    run = await start(house, "reserve_seat", "Rome")
    question = await house.one(run)
    assert question.address.endswith("agent:supervisor;tool:reserver:2;agent:reserver;tool:reserve_seat:1")
    await house.answer(run, "14C")
    assert await house.output(run) == "All set: seat 14C on OS 501."


@pytest.mark.slow
async def test_three_inquiries_are_answered_in_any_order(house: Harness) -> None:
    run = await start(house, "research_subject", "Tea")
    for side in ("taste", "history", "price"):
        questions = await house.runs.questions(run)
        while not (asked := [one for one in questions if one.address.endswith(f"level:{side}")]):
            questions = await house.runs.questions(run)
        await house.answer(run, f"a book on {side}", asked[0])
    output = await house.output(run)
    assert all(f"according to a book on {side}" in output for side in ("taste", "history", "price"))


@pytest.mark.parametrize("name", ["pay_invoice", "book_flight", "plan_holiday", "revise_text"])
def test_a_pattern_takes_at_most_fifteen_lines_beyond_the_agent(name: str) -> None:
    text = (ROOT / "examples" / name / f"{name}.yaml").read_text()
    beyond = [line for line in text.partition("steps:")[2].splitlines() if line.strip()]
    patterns = [line for line in text.partition("steps:")[0].splitlines() if "tools:" in line or "- {name:" in line]
    assert len(beyond) + len(patterns) <= 16  # `steps:` itself is the sixteenth


@pytest.mark.slow
async def test_a_contract_is_sent_when_two_editors_approve_it_and_not_the_one_who_asks(
    house: Harness, monkeypatch
) -> None:
    monkeypatch.setattr(guard.DEPLOYMENT, "groups", {"editors": ["user:ana", "user:bob", "user:eve"]})
    blueprint, input = (
        load(ROOT / "examples" / "send_contract" / "send_contract.yaml"),
        {"party": "Acme", "text": "We agree."},
    )
    run = await house.runs.start(blueprint, input, started_by="user:ana")
    house.started.append(run)
    for person, allowed in (("ana", False), ("zoe", False), ("bob", True), ("eve", True)):
        try:
            await house.answer(run, {"granted": True}, by=f"user:{person}")
            assert allowed
        except Refusal as refusal:
            assert (refusal.code, allowed) == ("not_allowed", False)
    assert await house.output(run) == "Sent to Acme."
