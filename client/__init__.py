"""The Python API for runs: start, read, answer, steer. Programs import its names from `holdfast`.

Entry points: `runs.Runs`, which is all of it, with its `facets`; below it `answering` (for whom it sends, with which
keys), `delivery` (answers, exactly once), `tree` (a run's workflows and their queries), `events` and `trace` (what
happened), `views` (how people see it), `forms` (a question as fields).
It imports runtime and what is below, and nothing that listens or prints: `server` and `cli` stand on it.
Traps: it loads no workflow and no activity, so that a client needs none of a worker's packages; a question is answered
at its owner, whose workflow may continue as new between two calls.
"""
