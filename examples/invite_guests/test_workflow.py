"""Tests of `workflow.py`: a server in memory, answers in order, and two days in no time. `pytest` runs them."""

from examples.invite_guests.workflow import Invitations
from holdfast import testing


async def test_the_list_may_be_changed_before_it_is_sent() -> None:
    async with testing.environment(workflows=[Invitations]) as env:
        assert await env.run(Invitations.run, ["Ana"], answers=["change", ["Eve", "Bob"], "yes"]) == "sent to 2"


async def test_nothing_is_sent_if_nobody_answers_for_two_days() -> None:
    async with testing.environment(workflows=[Invitations]) as env:
        assert await env.run(Invitations.run, ["Ana"]) == "not sent"
