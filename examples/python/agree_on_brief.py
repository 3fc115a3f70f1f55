"""The blueprint agree_on_brief in Python: a kind of step that Python has no word of its own for."""

from holdfast.build import Pipeline, add, step

BRIEF = {
    "type": "object",
    "required": ["audience", "length", "tone"],
    "properties": {
        "audience": {"type": "string", "description": "Who is it for?"},
        "length": {"type": "integer", "minimum": 10, "description": "How many words may it have?"},
        "tone": {"enum": ["warm", "formal", "funny"], "description": "Which tone?"},
        "avoid": {"type": "string", "description": "What must it not mention?"},
    },
}

with Pipeline(
    "agree_on_brief",
    description="Agree on a brief, one question at a time, and write it into a file.",
    inputs={"type": "string", "minLength": 1, "description": "What you want"},
) as agree_on_brief:
    brief = add("brief", kind="clarify", goal=f"A brief for: {agree_on_brief.input}", schema=BRIEF, confirm=True)
    file = step("file", "write_brief", {"title": agree_on_brief.input, "facts": brief.output})
    agree_on_brief.gives(f"Written into {file.output}.")
