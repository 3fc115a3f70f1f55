"""Notices: people and systems are told of questions, over the channels that `[notify]` configures.

A notifier reads the record, writes what is to be sent into an outbox beside it, and delivers from there. No run waits
for a notice, and no history knows of one. docs/notices.md describes it.
"""
