"""The codes of problems: stable names, used by programs and by comments that silence a warning."""

ERRORS = {
    "agent_unsupported": "An agent of your own code uses a feature that Holdfast does not support.",
    "bad_condition": "A condition of a plan cannot be read.",
    "bad_consent": "A consent or a choice is tested in a way that a no would pass.",
    "bad_entry": "An entry of an answers file lacks a key, or has keys that exclude each other.",
    "bad_expression": "An expression or a template cannot be read.",
    "bad_reference": "A reference of a plan does not exist, or selects a part of a value.",
    "bad_schema": "A JSON Schema is not valid, or refers to something outside itself.",
    "bad_script": "The script of a scripted model cannot be read where the worker runs.",
    "bad_shape": "A value is used as what it cannot be.",
    "bad_target": "A write has a target outside the context.",
    "bad_tool": "The arguments of a tool cannot be read from its annotations where the worker runs.",
    "bad_value": "A value does not have the form that its key requires.",
    "bad_yaml": "The text is not YAML or JSON, or uses a part of YAML that blueprints do not support.",
    "conflict": "Two keys exclude each other, or a key is not allowed in its place.",
    "cycle": "Steps of a plan wait for each other.",
    "duplicate_key": "A key appears twice.",
    "duplicate_name": "A name is used twice.",
    "endless_states": "A machine has a state from which no end can be reached.",
    "import_cycle": "A blueprint imports itself.",
    "impossible_comparison": "A value is compared with one that it never is.",
    "import_failed": "A module of your own code cannot be imported where the worker runs; a run tries it again.",
    "missing_key": "A required key is missing.",
    "model_auth": "The key of a model is not set where the worker runs.",
    "no_tests": "A file has no tests in it; they belong in a file beside the blueprint.",
    "no_worker": "No worker polls the task queue of a workflow that the blueprint starts.",
    "not_allowed": "A function may not be called from a blueprint.",
    "tool_input": "A fixed argument or input does not fit what the tool takes.",
    "unknown_agent": "The worker does not know an agent of your own code, or the agent has no such tool.",
    "uncovered_value": "A condition has a known value for which there is no branch: the step would fail.",
    "unknown_field": "A key is read that the value cannot have.",
    "unknown_filter": "No filter has this name.",
    "unknown_group": "No group has this name where the worker runs.",
    "unknown_key": "A key does not exist, or not in this place.",
    "unknown_kind": "No step kind has this name.",
    "unknown_model": "The worker does not know a model, or its package is not installed.",
    "unknown_name": "A name is not defined where it is used.",
    "unknown_tool": "The worker has no such tool, function or MCP server.",
    "unreachable_branch": "A branch has a key that its condition never returns.",
    "unreachable_state": "Nothing leads to a state of a machine, or to an end.",
    "unreadable_file": "A file cannot be read.",
}
"""A blueprint with one of these cannot run."""

WARNINGS = {
    "any_output": "A loop ends, or never ends, with any text or object that its steps give, also with a no.",
    "constant_condition": "A condition is the same however the run goes.",
    "few_questions": "A clarification needs more facts than it may ask questions.",
    "joined_parts": "`join` is given an object or a text, and joins its keys or its letters.",
    "late_append": "A list that grows between iterations is read after the loop, without the last iteration's value.",
    "missing_branch": "A condition has a value for which there is no branch: the step will fail.",
    "near_option": "An answer is compared with a text that is nearly one of its options.",
    "optional_key": "A key is read that the value may leave out: the expression then fails.",
    "null_in_text": "A text prints an output that may be null: the text then has the word null.",
    "shared_write": "Items of a map, branches or steps that run at once write one path: what they are in may fail.",
    "text_update": "A text is written to the context key by key: where it is no JSON object, the step fails.",
    "unlimited_history": "A conversation keeps every turn: each request to its model is longer than the one before.",
    "unlimited_loop": "A loop has no limit of its own, and asks nobody.",
    "unproved_person": "Who may answer depends on who answered before, and nothing proves who that was.",
    "unlisted_key": "A key is read that nothing says the value has.",
    "unread_number": "`int` or `float` is given a list or an object, and gives its default.",
    "unused_access": "An imported blueprint says who may see or steer: only the run's own blueprint can.",
    "unused_agent": "A named agent is never used.",
    "unused_default": "A default branch is never chosen, as there is a branch for true and one for false.",
    "unused_import": "An imported blueprint is never used.",
    "unused_replans": "A plan has `max_replans`, but no planner.",
    "unused_revisions": "A plan has `max_revisions`, but nobody is asked to approve it.",
}
"""A blueprint with these runs, but hardly as intended; a comment can silence each."""

COMMENTS = {
    "unknown_ignore": "A comment names a warning that does not exist.",
    "unneeded_ignore": "A comment silences nothing.",
}
"""Warnings about the comments themselves."""

CODES = {**ERRORS, **WARNINGS, **COMMENTS}
