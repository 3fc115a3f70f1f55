"""JSON plans: a plan is read, checked, and compiled to what every blueprint has.

`document` a plan as the blueprint that runs it, `recovery` and `text_lists` what planners write instead of one;
`compile` checks a plan and orders its units (`layout`, `structure`, `references`, `conditions`); `questions` and `work`
make ordinary steps of a unit, `answers` says what an answer means, `output` what a plan returns.

Entry points: `compile.compile_plan`, `questions.compile_question`, `work.compile_work`.
It imports kinds and expressions; the loader, the checks, explanations and the workflows of plans import it.
Trap: nothing is re-exported here, as a command loads `document` and `output` for every blueprint, and the rest for few.
"""
