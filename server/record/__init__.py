"""The record: what happened in the runs of a deployment, kept in a database after Temporal has forgotten them.

A recorder (`recorder`, `reader`, `progress`) fills the `store`; `record` is what commands, pages and API ask; `story`
tells it to people; `verification` checks it without Temporal, by the hashes of `entries` and by signed `checkpoints`.

Entry points: `record.Record`, `store.open_store`, `store.read_store`, `verification.verify`, `jobs`.
It imports client and what is below it, and SQLAlchemy, which is an extra. docs/record.md describes it.
Traps: it is no part of the truth while a run lives: losing it loses no run; the functions of the store block, so they
are called in threads; times in hashes are texts; the database's clock counts for leases, that of no process; what is
recorded twice is recorded once, by its key.
"""
