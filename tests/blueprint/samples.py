"""A step of every kind, for tests that must know them all; and a flow of eight steps as authors write them."""

from tests.blueprint.written import yaml

AGENTS = "agents: {editor: {model: echo, instructions: Edit.}}"
SAMPLES = {
    "step": "{name: draft, agent: editor}",
    "hitl": "{name: ask, kind: hitl, message: 'Which tone?'}",
    "conditional": "{name: way, kind: conditional, condition_expression: context.tone, branches: {warm: [{name: w}]}}",
    "loop": "{name: again, kind: loop, loop: {max_loops: 3, body: [{name: round}]}}",
    "map": "{name: each, kind: map, map: {iterable_input: context.events, body: [{name: look}]}}",
    "parallel": "{name: both, kind: parallel, branches: {legal: [{name: law}], money: [{name: sum}]}}",
    "block": "{name: booking, kind: block, steps: [{name: book, uses: book}], finally: [{name: tell}]}",
    "clarify": "{name: brief, kind: clarify, goal: A brief, schema: {properties: {city: {type: string}}}}",
    "cache": "{name: once, kind: cache, ttl: 1d, wrapped_step: {name: search, uses: search}}",
    "timer": "{name: rest, kind: timer, for: 2h}",
    "workflow": "{name: ship, kind: workflow, workflow: {name: ShipOrder, task_queue: shipping}}",
    "wait": "{name: paid, kind: wait, for: payment.received, key: '{{ input.invoice }}'}",
    "states": "{name: claim, kind: states, start: a, ends: [z], states: {a: {steps: [{name: look}], next: z}}}",
    "agentic_loop": "{name: plan, kind: agentic_loop, planner: editor, registry: [search]}",
}
EIGHT = yaml(
    """
    name: offer
    description: Write an offer, have it checked, send it.
    inputs: {type: object, required: [customer], properties: {customer: {type: string}}}
    agents:
      writer: {model: "openai:gpt-5.2", instructions: Write an offer in a friendly tone.}
    steps:
      - {name: look_up, uses: find_customer, input: {name: "{{ input.customer }}"}, sink_to: customer}
      - kind: clarify
        name: needs
        goal: "What {{ input.customer }} needs"
        schema: {required: [product, amount], properties: {product: {type: string}, amount: {type: integer}}}
      - {name: draft, agent: writer, sink_to: draft}
      - kind: loop
        name: revise
        loop:
          body:
            - {kind: hitl, name: review, message: "{{ context.draft }}"}
            - {name: rewrite, agent: writer, input: "{{ context.draft }} {{ resume_input }}", sink_to: draft}
          exit_expression: steps.review.output == 'good'
          max_loops: 5
      - {kind: hitl, name: discount, message: A discount?, ask: decision, options: [none, "5 %"], timeout: 1d,
         default: none}
      - {kind: hitl, name: release, message: May it be sent?, ask: permission, assignees: ["group:sales"]}
      - kind: conditional
        name: outcome
        condition_expression: steps.release.output
        branches:
          true: [{name: send, uses: send_mail, input: {text: "{{ context.draft }}"}}]
          false: [{name: drop, input: "Not sent."}]
      - {name: note, uses: stringify}
    """
)
PLAN = "{name: work, kind: plan, plan: {goal: Invite them, steps: [{id: guests, instruction: List the guests}]}}"
OF_EVERY_KIND = {"plan": PLAN, **SAMPLES}


def flow(kind: str) -> str:
    """A flow of one step of a kind."""
    return f"{AGENTS}\nsteps:\n  - {OF_EVERY_KIND[kind]}\n"


ASSIGNED = """
agents: {boss: {model: echo, human: [ask]}}
context: {owners: [user:zoe]}
steps:
  - {name: talk, kind: clarify, goal: Tea, schema: {properties: {kind: {type: string}}}, assignees: [user:ana]}
  - {name: direct, kind: agentic_loop, planner: {model: echo}, assignees: [group:leads]}
  - name: work
    kind: plan
    assignees: "{{ context.owners }}"
    plan:
      goal: Pay
      agent: boss
      steps:
        - {id: sure, instruction: "CONFIRM_ACTION: Sure?"}
        - {id: pay, instruction: Pay, tools: [book], assignees: [user:bob]}
"""
