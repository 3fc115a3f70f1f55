"""The `holdfast` command: a function for each command, with the views and prompts of a terminal.

Entry points: `__main__` (the script), `app` (the table of commands), `session` (what a command needs of Temporal).
It imports server, client and what is below; nothing imports it but `holdfast.testkit`.
Traps: a command loads what it needs and no more, as the start is most of its time; all output goes through `output`
and `render.console`, which remove control sequences from texts of others.
"""
