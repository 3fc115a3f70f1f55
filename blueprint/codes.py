"""The codes of problems: stable names, used by programs and by comments that silence a warning."""

ERRORS = {
    "agent_unsupported": "An agent of the team's own code uses something that cannot be carried.",
    "bad_condition": "A condition of a plan cannot be read.",
    "bad_entry": "An entry of a file of answers says too much or too little.",
    "bad_expression": "An expression or a template cannot be read.",
    "bad_reference": "A reference of a plan stands for nothing, or looks into a value.",
    "bad_schema": "A JSON Schema is not valid, or refers to something outside itself.",
    "bad_script": "The script of a scripted model cannot be read where the worker runs.",
    "bad_target": "A write goes somewhere else than into the context.",
    "bad_tool": "The arguments of a tool cannot be read from its annotations where the worker runs.",
    "bad_value": "A value is not of the form that its key wants.",
    "bad_yaml": "The text is not YAML or JSON, or uses a part of YAML that this language leaves out.",
    "conflict": "Two keys exclude each other, or a key does not belong where it stands.",
    "cycle": "Steps of a plan wait for each other.",
    "duplicate_key": "A key appears twice.",
    "duplicate_name": "A name is taken.",
    "import_cycle": "A blueprint imports itself.",
    "missing_key": "A key that is needed is not there.",
    "model_auth": "The key of a model is not set where the worker runs.",
    "no_worker": "No worker polls the task queue of a workflow that the blueprint starts.",
    "not_allowed": "A function is not one that blueprints may call.",
    "unknown_agent": "The worker has no such agent in its own code, or the agent no such tool.",
    "unknown_filter": "No filter has this name.",
    "unknown_group": "No group has this name where the worker runs.",
    "unknown_key": "No such key is known where it stands.",
    "unknown_kind": "No step kind has this name.",
    "unknown_model": "The worker knows no such model, or lacks its package.",
    "unknown_name": "A name stands for nothing where it is read.",
    "unknown_tool": "The worker has no such tool, function or MCP server.",
    "unreadable_file": "A file cannot be read.",
}
"""A blueprint with one of these cannot run."""

WARNINGS = {
    "few_questions": "A clarification wants more facts than it may put questions.",
    "missing_branch": "A condition has a value for which there is no branch: the step will fail.",
    "shared_write": "Items of a map that run at once write one path of the context: the map may fail.",
    "unlimited_history": "A conversation keeps every turn: each request to its model is longer than the one before.",
    "unlimited_loop": "A loop has no limit of its own, and no person in it.",
    "unreachable_branch": "A branch has a key that its condition never gives.",
    "unused_access": "A blueprint that is imported says who may steer: only the run's own blueprint can.",
    "unused_agent": "An agent has a name, and nothing uses it.",
    "unused_import": "A blueprint is imported, and nothing uses it.",
    "unused_revisions": "A plan has `max_revisions`, and nobody is asked whether it may run.",
}
"""A blueprint with these runs, but hardly as intended; a comment can silence each."""

COMMENTS = {
    "unknown_ignore": "A comment names a warning that does not exist.",
    "unneeded_ignore": "A comment silences nothing.",
}
"""Warnings about the comments themselves."""

CODES = {**ERRORS, **WARNINGS, **COMMENTS}
