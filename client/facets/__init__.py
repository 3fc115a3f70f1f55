"""The facets of `Runs`: what a program asks of runs beside starting, answering and their results.

`runs.access` (what a person may do), `runs.lists` (which runs there are, and which wait), `runs.watch` (what a run is,
and what happened), `runs.control` (pause, cancel, edit, tell), `runs.plans`, `runs.assignment` (claim, delegate) and
`runs.external_events`. Each is made by `Runs`, and holds the same three things: the access to the workflows, the way
of answering, and what the person may do. They import what is below `runs`, and never `runs` itself.
Trap: a public method that waits for Temporal stands in a class decorated with `raise_server_errors`, and is called in
`tests/client/test_server_errors.py`.
"""
