"""Notices: people and systems are told of questions, over the channels that `[notify]` configures.

The `notifier` reads the record as a feed, the `planner` says which channel tells whom, the `outbox` beside the record
keeps what is to be sent, a `sender` for each of the `channels` empties it by the channel's transport (`transports`).

Entry points: `notifier.Notifier`, `channels.make_channels`, `outbox.remember_sign_in`.
It imports the record, never the web server: links come from its caller. docs/notices.md describes it.
Traps: no run waits for a notice, and no history knows of one; plans and the place in the feed are written in one
transaction, a delivery is marked after it: a notice goes out at least once, under the same id; the outbox counts by the
database's clock; no reason and no log may hold an address, which may hold a token.
"""
