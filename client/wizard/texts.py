"""The files that the wizard writes: a blueprint for each pattern in short forms, and a model's scripted replies."""

from __future__ import annotations

from string import Template
from typing import Literal

from pydantic import BaseModel, ConfigDict

from holdfast.client.wizard.scalars import literal, scalar

SCRIPTED = "scripted"
NEVER = "never"
_COMMENTS_FROM = 43


class WizardAnswers(BaseModel):
    """A person's answers to the wizard; fields that the pattern does not need are empty."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    goal: str
    pattern: Literal["clarify", "feedback", "approval", "conversation", "items"]
    model: str = ""
    question: str = ""
    deadline: str = NEVER
    unanswered: str = "fail"
    facts: str = ""
    items: str = ""

    @property
    def is_scripted(self) -> bool:
        """True if the model's replies come from a file written beside the blueprint."""
        return self.model == SCRIPTED


_CLARIFY = Template("""\
# Ask until it is clear, one question at a time; what was agreed on is the result. No model is needed.
name: $name
description: $description

steps:
  - kind: clarify
    name: agree
    goal: $goal
    schema:
      type: object
      required: $facts
      properties:                          # a question each; `type: integer` or `enum: [a, b]` may say more
$properties
    confirm: true                          # what was understood is shown, and may be corrected
""")
_FEEDBACK = Template("""\
# Write, show, take feedback, write again, until a person finds it good.
name: $name
description: $description

agents:
  writer:
    model: $model
    instructions: $instructions

steps:
  - kind: loop
    name: revise
    loop:
      body:
        - name: draft
          agent: writer
          input: |
            {{ input or 'Begin.' }}
            The draft so far: {{ context.draft or 'none' }}
            What the person says of it: {{ resume_input or 'nothing yet' }}
          sink_to: draft
        - kind: hitl
          name: review
          message: $question
          ask: clarification
          options: [{id: good, label: "Good, keep it"}]     # or what to change, in your own words$deadline
      exit_expression: output == 'good'
      max_loops: 10
      on_max_loops: ask                    # ten rounds: ask whether to go on
      output_template: "{{ context.draft }}"
""")
_APPROVAL = Template("""\
# Nothing is done before a person has said so. What it is about comes with --input.
name: $name
description: $description

steps:
  - kind: hitl
    name: approve
    ask: decision
    message: $question
    options:
      - {id: approve, label: Do it}
      - {id: refuse, label: Do not do it}$deadline
  - kind: conditional
    name: outcome
    condition_expression: steps.approve.output
    branches:
      approve:
        - name: act                        # what is done: add `uses:` with the name of your tool
          input: $done
      refuse:
        - name: leave
          input: $left
""")
_CONVERSATION = Template("""\
# An agent asks until it knows what is wanted, one question a turn, then another writes the result.
name: $name
description: $description

agents:
  asker:
    model: $model
    instructions: $asking
    output_schema:                         # what it says, and whether it asks or has finished
      type: object
      required: [say, scratchpad]
      properties:
        say: {type: string}
        scratchpad:
          type: object
          required: [last_agent_command]
          properties:
            last_agent_command:
              type: object
              required: [action]
              properties: {action: {enum: [ask, finish]}}
  writer:
    model: $model
    instructions: $instructions

steps:
  - kind: hitl
    name: get_goal
    message: $question$deadline_first
  - kind: loop
    name: talk
    loop:
      conversation: true                   # keep the history, hand the context on, stop when the agent has finished
      ai_turn_source: say
      max_loops: 8
      on_max_loops: finish                 # eight turns: write with what is known
      init:
        history:
          start_with: {from_step: get_goal, prefix: "User: "}
      body:
        - name: think                      # gets the turns so far, as messages
          agent: asker
          updates_context: true
        - name: say
          input: "{{ context.say }}"
        - kind: hitl                       # asks what was said; the answer becomes a turn of the conversation
          name: person
          when: context.scratchpad.last_agent_command.action == 'ask'$deadline
      output:
        text: conversation_history
  - name: write
    agent: writer
""")
_ITEMS = Template("""\
# The same for every item of a list: an agent writes, a person decides. The result is what was kept.
name: $name
description: $description
context:
  items: $items
  kept: []

agents:
  writer:
    model: $model
    instructions: $instructions

steps:
  - kind: map
    name: each
    map:
      iterable_input: input or context.items      # --input '["one", "two"]' gives others
      on_item_error: ask                   # a person says what to do
      body:
        - {name: draft, agent: writer, input: "{{ item }}"}
        - kind: hitl
          name: decide
          ask: decision
          message: $question
          options: [keep, drop]$deadline
        - name: keep
          when: steps.decide.output == 'keep'
          input: "{{ context.kept + [steps.draft.output] }}"
          sink_to: kept
      finalize: {output_template: "{{ context.kept }}"}
""")
_REPLIES = {
    "feedback": """\
draft:
  - "The first draft."
  - "The next draft, changed as you said."
""",
    "conversation": """\
think:
  - output: {say: "Who is it for?", scratchpad: {last_agent_command: {action: ask}}}
  - output: {say: "What must not be missing?", scratchpad: {last_agent_command: {action: ask}}}
  - output: {say: "Thank you, that is clear.", scratchpad: {last_agent_command: {action: finish}}}
write:
  - "What was agreed:\\n{{ messages[-1].content }}"
""",
    "items": """\
draft:
  - "A text about {{ messages[-1].content }}."
""",
}


def blueprint_text(answers: WizardAnswers, replies: str = "") -> str:
    """Return the blueprint's YAML; `replies` is the file name of its scripted replies."""
    common = {"name": scalar(answers.name), "description": scalar(answers.goal)}
    match answers.pattern:
        case "clarify":
            return _CLARIFY.substitute(common, **_clarify(answers))
        case "feedback":
            return _FEEDBACK.substitute(common, **_feedback(answers, replies))
        case "approval":
            return _APPROVAL.substitute(common, **_approval(answers))
        case "conversation":
            return _CONVERSATION.substitute(common, **_conversation(answers, replies))
        case "items":
            return _ITEMS.substitute(common, **_items(answers, replies))


def replies_text(answers: WizardAnswers) -> str | None:
    """Return the text of the scripted replies; None if no model, or a real one, is used."""
    if not answers.is_scripted:
        return None
    header = f"# The model's replies, step by step; the last one repeats. A real model: `model:` in {answers.name}.\n"
    return header + _REPLIES[answers.pattern]


def _clarify(answers: WizardAnswers) -> dict[str, str]:
    names = _names(answers.facts)
    questions = {name: name.replace("_", " ").capitalize() + "?" for name in names}
    lines = [f"        {scalar(name)}: {{type: string, description: {scalar(questions[name])}}}" for name in names]
    return {"goal": scalar(literal(answers.goal)), "facts": _flow_list(names), "properties": "\n".join(lines)}


def _feedback(answers: WizardAnswers, replies: str) -> dict[str, str]:
    return {
        "model": _model(answers, replies),
        "instructions": _instructions(answers, "Take the feedback into account."),
        "question": _question(answers, "\n\n{{ context.draft }}"),
        "deadline": _deadline(answers, 10, {"keep": "good"}),
    }


def _approval(answers: WizardAnswers) -> dict[str, str]:
    about = "{% if input %}\n{{ input }}{% endif %}"
    return {
        "question": _question(answers, about),
        "deadline": _deadline(answers, 4, {"refuse": "refuse"}),
        "done": scalar(f"Done: {literal(answers.goal)}"),
        "left": scalar(f"Not done: {literal(answers.goal)}"),
    }


def _conversation(answers: WizardAnswers, replies: str) -> dict[str, str]:
    go_on = {"decide": "Decide for me."}
    return {
        "model": _model(answers, replies),
        "asking": _instructions(answers, "Ask one short question at a time. Finish when you know enough."),
        "instructions": _instructions(answers, "Write the result from the conversation."),
        "question": _question(answers),
        "deadline_first": _deadline(answers, 4, go_on),
        "deadline": _deadline(answers, 10, go_on),
    }


def _items(answers: WizardAnswers, replies: str) -> dict[str, str]:
    return {
        "items": _flow_list(_names(answers.items)),
        "model": _model(answers, replies),
        "instructions": _instructions(answers, "You get one item."),
        "question": _question(answers, "\n\n{{ item }}: {{ steps.draft.output }}"),
        "deadline": _deadline(answers, 10, {"keep": "keep", "drop": "drop"}),
    }


def _names(typed: str) -> list[str]:
    """Return the names between the commas, each once.

    >>> _names("tea, milk,, tea ")
    ['tea', 'milk']
    """
    return list(dict.fromkeys(filter(None, map(str.strip, typed.split(",")))))


def _flow_list(texts: list[str]) -> str:
    return f"[{', '.join(map(scalar, texts))}]"


def _model(answers: WizardAnswers, replies: str) -> str:
    return scalar(f"scripted:{replies}" if answers.is_scripted else answers.model)


def _instructions(answers: WizardAnswers, more: str) -> str:
    """Return the goal as a sentence, followed by the pattern's instructions."""
    goal = literal(answers.goal.strip())
    return scalar(f"{goal}{'' if goal.endswith(('.', '!', '?')) else '.'} {more}")


def _question(answers: WizardAnswers, about: str = "") -> str:
    """Return the person's question, followed by its subject (a template)."""
    return scalar(literal(answers.question) + about)


def _deadline(answers: WizardAnswers, indent: int, defaults: dict[str, str]) -> str:
    """Return the lines of a question for its timeout and default answer; empty without a deadline."""
    if answers.deadline == NEVER:
        return ""
    default = defaults.get(answers.unanswered)
    if default is None:
        return "\n" + _commented(indent, f"timeout: {answers.deadline}", "then the run fails")
    answer = _commented(indent, f"default: {scalar(default)}", "what counts as the answer then")
    return f"\n{' ' * indent}timeout: {answers.deadline}\n{answer}"


def _commented(indent: int, line: str, why: str) -> str:
    return f"{' ' * indent + line:{_COMMENTS_FROM - 2}}  # {why}"
