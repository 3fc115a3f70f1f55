"""The blueprint revise_text in Python: an agent, a question, a loop and its exit."""

from holdfast.build import Pipeline, agent, ask, context, loop, output, step

writer = agent(
    "writer",
    model="scripted:../revise_text/replies.yaml",
    instructions="Write a short text. Take the feedback into account.",
)

with (
    Pipeline(
        "revise_text",
        description="Revise a text until a person finds it good.",
        inputs={"type": "string", "minLength": 1},
    ) as revise_text,
    loop("revise", max_loops=10, on_max_loops="ask") as revise,
):
    heard = revise.resume_input.or_("none yet")
    step("draft", writer, f"Topic: {revise_text.input}. Feedback: {heard}", sink_to=context.draft)
    ask.clarification("review", context.draft, options={"good": "Good, keep it"})  # or your own words
    revise.until(output == "good")
    revise.gives(context.draft)
