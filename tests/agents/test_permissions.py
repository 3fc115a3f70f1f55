"""The decision on a tool call: every mechanism alone, and that a forecast never promises what a call then lacks."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from holdfast.blueprint.kinds import Agent
from holdfast.protocol.agents import ToolSpec
from holdfast.protocol.permissions import Policy, ProposedCall, Repetition, collect_policies, decide, find_expected
from holdfast.protocol.tool_rules import Consent, OwnerRule

FILES = {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"$ref": "#/$defs/File"}}]}
FILE = {"properties": {"path": {"type": "string"}}}
SPEC = ToolSpec(
    name="pay",
    reference="pay",
    parameters={"properties": {"to": {}, "amount": {}, "files": FILES}, "$defs": {"File": FILE}},
)
CALLS: list[dict[str, Any]] = [{}, {"to": "ana"}, {"to": "bob", "amount": 9}, {"amount": 1}]


def agent(rules: Any = (), human: Any = (), **tool: Any) -> Agent:
    tools = [{"name": "pay", **tool}]
    return Agent.model_validate({"model": "m", "tools": tools, "human": list(human), "permissions": list(rules)})


def rule(action: str, **more: str) -> dict[str, str]:
    return {"tool": "pay", "action": action, **more}


def action(args: dict[str, Any], *agents: Agent, consent: Consent = "", repetition: Repetition = "") -> str:
    policies = [Policy.of(one, SPEC) for one in agents]
    return decide(ProposedCall(SPEC, args, policies, consent, repetition)).action


@pytest.mark.parametrize(
    ("policy", "is_"),
    [
        (agent(), "allow"),
        (agent(human=["approve"]), "approve"),
        (agent(human=["approve"], approve="never"), "allow"),
        (agent(approve="always"), "approve"),
        (agent(approve="args.amount > 5"), "approve"),
        (agent(approve="args.amount > 10"), "allow"),
        (agent(approve="args.missing > 10"), "approve"),
        (agent(review=True), "review"),
        (agent([rule("allow")], approve="always"), "allow"),
        (agent([rule("deny")], review=True), "refuse"),
        (agent([rule("deny"), rule("allow", target="bob")]), "allow"),
        (agent([rule("ask", target="ana")]), "allow"),
    ],
)
def test_each_mechanism_decides(policy: Agent, is_: str) -> None:
    assert action({"to": "bob", "amount": 9}, policy) == is_


@pytest.mark.parametrize(
    ("files", "is_"),
    [
        ("ok/a", "allow"),
        ({"ok/a": {"path": "ok/b"}}, "allow"),
        ({"etc/x": {"path": "ok/b"}}, "approve"),
        ({"ok/a": {"mode": "ok/b"}}, "approve"),
        ("ok/b/../a", "allow"),
        ("ok/../../etc/x", "approve"),
        ("ok/..\\secret", "approve"),
        ({"secret/x": {}}, "refuse"),
        ("./secret/x", "refuse"),
        ("ok/../secret/x", "refuse"),
        ("Secret/x", "approve"),
    ],
)
def test_a_target_is_compared_with_all_that_the_caller_chose(files: Any, is_: str) -> None:
    rules = [rule("ask"), rule("allow", target="ok/*"), rule("deny", target="secret/*")]
    assert action({"files": files}, agent(rules)) == is_


def test_a_permit_replaces_an_approval_but_neither_a_review_nor_a_rule_that_denies() -> None:
    assert action({}, agent(approve="always"), consent="approved") == "allow"
    assert action({}, agent(review=True), consent="approved") == "review"
    assert action({}, agent([rule("deny")]), consent="approved") == "refuse"


def test_what_was_reviewed_is_decided_again_and_not_reviewed_twice() -> None:
    assert action({}, agent(review=True), consent="reviewed") == "allow"
    assert action({}, agent(review=True, approve="always"), consent="reviewed") == "allow"
    assert action({}, agent([rule("deny")], review=True), consent="reviewed") == "refuse"


@pytest.mark.parametrize(
    ("policy", "is_"),
    [
        (agent(), "approve"),
        (agent(approve="always"), "approve"),
        (agent(review=True), "review"),
        (agent([rule("deny")]), "refuse"),
    ],
)
def test_a_repeated_call_is_asked_about_once_and_ends_an_agent_that_can_ask_nobody(policy: Agent, is_: str) -> None:
    assert action({}, policy, repetition="asks") == is_
    assert action({}, policy, repetition="asks", consent="approved") == is_
    assert action({}, policy, repetition="ends") == "end"


def test_a_review_asks_the_question_of_the_tools_owner() -> None:
    spec = SPEC.model_copy(update={"rule": OwnerRule(review=True, permission="May it be published?")})
    assert decide(ProposedCall(spec, {})).reason == "May it be published?"


def test_of_several_agents_the_strictest_counts_and_one_that_does_not_cover_the_tool_has_no_say() -> None:
    assert action({}, agent(), agent(approve="always")) == "approve"
    assert action({}, agent(approve="always"), agent([rule("deny")])) == "refuse"
    other = Agent.model_validate({"model": "m", "tools": [{"name": "look"}], "human": ["approve"]})
    assert collect_policies(SPEC, agent(), [other]) == [Policy.of(agent(), SPEC)]


RULES = [[], *([rule(a)] for a in ("allow", "deny", "ask")), [rule("ask"), rule("allow", target="ana")]]
RULES += [[rule("deny"), rule("ask", target="bob")], [rule("allow"), rule("deny", target="*a*")]]


def test_a_forecast_without_arguments_is_kept_by_every_call() -> None:
    settings = product(RULES, ([], ["approve"]), (None, "always", "never", "args.amount > 5"), (False, True))
    for rules, human, approve, review in settings:
        policy = agent(rules, human, review=review, **({} if approve is None else {"approve": approve}))
        actions = [action(args, policy) for args in CALLS]
        match find_expected(SPEC, [Policy.of(policy, SPEC)]):
            case "allow":
                assert set(actions) == {"allow"}
            case "deny":
                assert set(actions) == {"refuse"}
            case "ask":
                assert "allow" not in actions
