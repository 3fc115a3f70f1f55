"""Agents with tools as an author writes them: short forms, and what is wrong with them."""

from __future__ import annotations

import pytest

from holdfast.blueprint.load import loads
from tests.blueprint.written import problems

AGENTS = "agents: {{a: {{model: echo, {}}}, b: {{model: echo, tools: [agent:a]}}}}\nsteps: [{{name: s, agent: b}}]"


def test_a_tool_may_be_named_alone_or_with_what_a_person_has_to_say() -> None:
    blueprint = loads(
        AGENTS.format("tools: [search, {name: pay, approve: true}, agents.c, mcp:files]").replace(
            "b:", "c: {model: echo}, b:", 1
        ),
        name="t",
    )
    tools = blueprint.agents["a"].tools
    assert [tool.name for tool in tools] == ["search", "pay", "agent:c", "mcp:files"]
    assert tools[1].approve == "always"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("tools: [agent:x]", "agents.a.tools[0].name: unknown_name: unknown agent 'x'"),
        ("tools: [imports.x]", "agents.a.tools[0].name: unknown_name: unknown import 'x'"),
        ("tools: [s, s]", "agents.a.tools[1].name: duplicate_name: the tool 's' appears twice"),
        ("tools: ['mcp:']", "agents.a.tools[0].name: bad_value: 'mcp:' does not name an MCP server"),
        ("tools: ['a b:c']", "agents.a.tools[0].name: bad_value: 'a b:c' does not name a function"),
        ("tools: [stringify]", "agents.a.tools[0].name: bad_value: 'stringify' is a built-in"),
        ("tools: [agent:b]", "agents.a.tools: conflict: the agent 'a' is among its own tools"),
        ("tools: [{name: p, approve: args.n >}]", "agents.a.tools[0].approve: bad_expression"),
        ("tools: [{name: p, approve: amount > 3}]", "agents.a.tools[0].approve: unknown_name: unknown name 'amount'"),
        ("tools: [{name: p, aprove: always}]", "agents.a.tools[0].aprove: unknown_key"),
        ("human: [aks]", "must be 'ask' or 'approve', not 'aks'"),
        ("permissions: [{action: deny}]", "agents.a.permissions: conflict: 'permissions' belongs to agents that work"),
        ("tools: [p], permissions: [{action: forbid}]", "must be 'allow', 'deny' or 'ask', not 'forbid'"),
        (
            "tools: [p], history_management: {strategy: summarize}",
            "missing_key: 'max_turns' or 'max_tokens' is missing",
        ),
        ("tools: [p], history_management: {strategy: summarize, max_turns: 3, agent: c}", "unknown agent 'c'"),
        ("tools: [p], max_turns: 0", "must be at least 1, not 0"),
    ],
)
def test_what_is_wrong_with_an_agent_is_told_at_its_place(written: str, said: str) -> None:
    told = "\n".join(problems(AGENTS.format(written)))
    assert said in told


def test_a_planner_has_its_tools_in_the_registry() -> None:
    text = "steps: [{kind: agentic_loop, name: p, planner: {model: echo, tools: [s]}, registry: [agent:x]}]"
    conflict, unknown = problems(text)
    assert conflict.startswith("steps[0].planner: conflict: a planner has no tools of its own")
    assert unknown.startswith("steps[0].registry[0].name: unknown_name: unknown agent 'x'")


DIRECTED = """
agents: {boss: {model: echo, permissions: [{tool: NAME, action: deny}]}, helper: {model: echo}}
steps:
- {kind: agentic_loop, name: p, planner: boss, registry: [pay, 'agent:helper', 'books:send']}
- {kind: agentic_loop, name: q, planner: boss, registry: MORE}
"""


@pytest.mark.parametrize("name", ["pay", "agent:helper", "helper", "'books:send'", "send", "refund", "'pa*'"])
def test_a_rule_of_a_planner_names_a_tool_of_a_registry(name: str) -> None:
    assert problems(DIRECTED.replace("NAME", name).replace("MORE", "[refund]")) == []


@pytest.mark.parametrize("name", ["pey", "run_agent", "finish"])
def test_a_rule_of_a_planner_that_names_no_tool_of_a_registry_is_an_error(name: str) -> None:
    text = DIRECTED.replace("NAME", name)
    [told] = problems(text.replace("MORE", "[refund]"))
    assert told.startswith(f"agents.boss.permissions[0].tool: unknown_name: unknown tool {name!r}")
    assert problems(text.replace("MORE", "['mcp:files']")) == [], "only a run knows a server's tools"


@pytest.mark.parametrize("registry", ["[pay]", "[]"])
def test_so_is_one_of_a_planner_that_is_written_in_its_step(registry: str) -> None:
    planner = "{model: echo, permissions: [{tool: pey, action: deny}]}"
    [told] = problems(f"steps: [{{kind: agentic_loop, name: p, planner: {planner}, registry: {registry}}}]")
    assert told.startswith("steps[0].planner.permissions[0].tool: unknown_name: unknown tool 'pey'")


def test_a_planners_template_sees_its_log_and_nothing_else_does() -> None:
    text = "steps: [{kind: agentic_loop, name: p, planner: {model: echo}, KEY: '{{ log }}'}]"
    assert problems(text.replace("KEY", "output_template")) == []
    [told] = problems(text.replace("KEY", "input"))
    assert "unknown name 'log'" in told


@pytest.mark.parametrize("human", ["ask", "approve"])
def test_a_planner_that_may_ask_is_told_that_it_may_already(human: str) -> None:
    text = f"steps: [{{kind: agentic_loop, name: p, planner: {{model: echo, human: [{human}]}}, registry: [s]}}]"
    [conflict] = problems(text)
    assert conflict.startswith("steps[0].planner: conflict: a planner has no `human`")


def test_the_agent_that_summarises_for_a_loop_must_be_known() -> None:
    rule = "history_management: {strategy: summarize, max_turns: 4, agent: editor}"
    loop = f"{{max_loops: 2, conversation: true, {rule}, body: [{{name: a, agent: writer}}]}}"
    text = f"agents: {{writer: {{model: echo}}}}\nsteps: [{{kind: loop, name: l, loop: {loop}}}]"
    [problem] = problems(text)
    assert problem.startswith("steps[0].loop.history_management.agent: unknown_name: unknown agent 'editor'")


OBJECT = "agents: {{a: {{from: 'm:a', {}}}}}\nsteps: [{{name: s, agent: a}}]"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("output_schema: {type: object}", "agents.a.output_schema: conflict: the agent of 'from' has a type of output"),
        ("output_mode: native", "agents.a.output_mode: conflict: the agent of 'from' says itself"),
        (
            "tools: ['mcp:files']",
            "agents.a.tools[0].name: bad_value: 'mcp:files' cannot be given to an agent",
        ),
        ("tools: [pay, pay]", "agents.a.tools[1].name: duplicate_name: the tool 'pay' appears twice"),
        ("deps: desk", "agents.a.deps: bad_value: 'desk' does not name a function"),
    ],
)
def test_what_cannot_stand_beside_from_is_said(written: str, said: str) -> None:
    [problem] = problems(OBJECT.format(written))
    assert problem.startswith(said)


@pytest.mark.parametrize(
    "step",
    [
        "{kind: clarify, name: s, goal: g, agent: a, schema: {type: object, properties: {x: {type: string}}}}",
        "{kind: agentic_loop, name: s, planner: a, max_loops: 2}",
        "{kind: hitl, name: s, message: m, verify: {agent: a}}",
    ],
)
def test_an_agent_of_from_does_no_work_that_needs_an_output_of_ours(step: str) -> None:
    found = problems(f"agents: {{a: {{from: 'm:a'}}}}\nsteps: [{step}]")
    assert [one for one in found if "an agent of 'from' has an output of its own" in one] == found != []


def test_an_agent_needs_a_model_or_an_object() -> None:
    found = problems("agents: {a: {deps: 'm:f'}}\nsteps: [{name: s, agent: a}]")
    assert [one.partition(" (")[0] for one in found] == [
        "agents.a.model: missing_key: 'model' is missing",
        "agents.a.deps: conflict: 'deps' belongs to agents with 'from'",
    ]
