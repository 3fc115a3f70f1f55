"""What everybody prints of runs: terminal, pages, `--json`, the API, MCP. Immutable values, derived in one place.

`steps` a step with what is inside it, `runs` a run, `questions` an open question, `plans` a plan (loaded where one is
shown, with the language). A surface lays views out and decides on words, glyphs and lengths only; it reads no events.
They import `protocol`, `blueprint` and the values of `client.states`. `client.trace` makes steps of events, and
`runs.watch` and `runs.plans` give views to everybody.
"""

from holdfast.client.views.steps import GroupView, ItemCount, Mark, Spending, StepAnswer, StepError, StepView

__all__ = ["GroupView", "ItemCount", "Mark", "Spending", "StepAnswer", "StepError", "StepView"]
