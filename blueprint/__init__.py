"""The blueprint language: what an author may write. Pure; imports no Temporal.

Entry points: `load` (a file or a text becomes a `kinds.Blueprint`), `kinds` (every kind of step), `check` (rules of a
whole blueprint), `explain` and `graph` (what it will do), `plan` (JSON plans), `build` (the same from Python),
`expressions` (conditions and templates), `core.expand` (the form without short forms).
It imports nothing of ours, and runs in every process.
Traps: workflows evaluate with it, so that a changed result breaks a replay; this file imports nothing, as a command
that only answers a question needs neither the loader nor the checks.
"""
