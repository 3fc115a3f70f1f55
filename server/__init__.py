"""What listens, and serves people and programs.

`web` has the pages of the inbox and the API under `/api/v1`; `mcp` the server for assistants; `record` the append-only
database of what happened, with what fills and verifies it; `notices` finds whom to notify, and delivers.

Entry points: `web.app.create_app`, `mcp.server`, `record.record.Record`, `notices.notifier`.
It imports client and what is below, never a command: `cli` starts it.
Traps: the record is no part of the truth while a run lives; every page, call and tool asks what the person may before
it does anything; several processes may share a record, of which one records and one delivers, by a lease.
"""
