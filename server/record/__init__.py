"""The record: what happened in the runs of a deployment, kept in a database after Temporal has forgotten them.

A recorder fills it, people read it by `holdfast history`. It is no part of the truth while a run lives: losing it loses
no run. docs/record.md describes it.
"""
