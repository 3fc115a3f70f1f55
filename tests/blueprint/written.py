"""Blueprints that load, for the tests of this room."""

from textwrap import dedent

from holdfast.blueprint.load import parse


def yaml(text: str) -> str:
    return dedent(text).lstrip("\n")


SEED_LOOP = yaml(
    r"""
    agents:
      clarifier: {model: echo, instructions: Clarify.}
    steps:
      - {name: get_goal, kind: hitl, message: What is the goal?}
      - kind: loop
        name: clarification_loop
        loop:
          init:
            - append: { target: "context.scratchpad.history", value: "User: {{ steps.get_goal.output }}" }
          body:
            - {name: clarify, agent: clarifier, updates_context: true}
          propagation:
            next_input: context  # common case
          exit_expression: "context.scratchpad.last_agent_command.action == 'finish'"
          output_template: "{{ context.scratchpad.history | join('\n') }}"
    """
)

SEED_FRIENDLY = yaml(
    """
    agents:
      clarifier: {model: echo, instructions: Clarify.}
    steps:
      - {name: get_goal, kind: hitl, message: What is the goal?}
      - kind: loop
        name: clarification_loop
        loop:
          conversation: true              # history + context propagation + agent_finished
          init:
            history:
              start_with:
                from_step: get_goal
                prefix: "User: "
          body:
            - {name: clarify, agent: clarifier, updates_context: true}
          output:
            text: conversation_history
    """
)

FULL = yaml(
    """
    version: 0.1
    name: brief
    description: Agree on a brief, then write it.
    inputs: {type: object, required: [topic], properties: {topic: {type: string}}}
    context: {tries: 0, notes: []}
    context_schema: {type: object, properties: {tries: {type: integer}}}
    agents:
      editor: {model: echo, system_prompt: "Write on {{ input.topic }}.", settings: {temperature: 0.5}, timeout: 30s}
    steps:
      - name: draft
        uses: agents.editor
        input: {topic: "{{ input.topic }}", tags: [a, "{{ context.tries }}"]}
        sink_to: context.drafts.first
        retry: {attempts: 3, backoff: 1s, max: 1m}
        on_error:
          fallback: {name: plain, uses: flujo.builtins.stringify_sync, input: "{{ error.message }}"}
      - kind: hitl
        name: review
        message: "Which tone for {{ steps.draft.output }}?"
        ask: decision
        options: [warm, {id: cool, label: Cool, risk: low}, 3, on]
        multiple: 2
        timeout: PT15M
        default: [warm]
      - kind: conditional
        name: choose
        condition_expression: "'warm' in steps.review.output"
        branches:
          true: {name: warm, agent: {id: warm_it_up}}
          false:
            steps:
              - {name: cool, uses: "my_tools.words:cool_down"}
        default_branch: [{name: neither}]
      - kind: loop
        name: polish
        when: true
        loop:
          body:
            - {name: one, agent: {model: echo, instructions: Polish.}, output_schema: {type: [string, object]}}
            - kind: loop
              name: inner
              loop: {body: {name: two, input: "{{ iteration }} {{ steps.one.output }}"}, max_loops: 2}
          max_loops: 3
          init: {append: {target: context.notes, value: "{{ previous_step }}"}, set: [{target: context.n, value: 1}]}
          state: {set: context.n, value: "{{ context.n + 1 }}"}
          propagation: auto
          output: {fields: {goal: initial_prompt, said: conversation_history, n: "{{ context.n }}"}}
    output: {text: "{{ steps.polish.output }}", tone: "{{ steps.review.output }}"}
    """
)

ALL = {"seed_loop": SEED_LOOP, "seed_friendly": SEED_FRIENDLY, "full": FULL}


def problems(text: str) -> list[str]:
    return [f"{one.path}: {one.code}: {one.message} ({one.hint})" for one in parse(text, name="t").problems]
