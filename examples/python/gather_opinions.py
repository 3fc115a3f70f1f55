"""The blueprint gather_opinions in Python: branches that run at once."""

from holdfast.build import Pipeline, agent, ask, parallel, step

strict = agent(
    "strict",
    model="scripted:../gather_opinions/replies.yaml",
    instructions="Answer with publish or revise. You are strict.",
)
kind = agent(
    "kind",
    model="scripted:../gather_opinions/replies.yaml",
    instructions="Answer with publish or revise. You are kind.",
)

with Pipeline(
    "gather_opinions",
    description="Get three opinions on a text, and do what the majority says.",
    inputs={"type": "string", "minLength": 1},
    limits={"model_calls": 20},
) as gather_opinions:
    with parallel("judge", merge_strategy="no_merge", reduce="majority_vote", on_branch_failure="ignore") as judge:
        with judge.branch("person"):
            ask.decision("ask", gather_opinions.input, options=["publish", "revise"], timeout="1d", on_timeout="fail")
        with judge.branch("strict"):
            step("strict", strict)
        with judge.branch("kind"):
            step("kind", kind)
