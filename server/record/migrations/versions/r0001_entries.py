"""The first tables: entries in chains, checkpoints, the recorder's state."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "recorded_runs",
        sa.Column("first_run", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("blueprint", sa.Text, nullable=False),
        sa.Column("entries", sa.Integer, nullable=False),
        sa.Column("head", sa.Text, nullable=False),
        sa.Column("sealed", sa.Integer, nullable=False),
    )
    op.create_index("ix_recorded_runs_run", "recorded_runs", ["namespace", "run"])
    op.create_table(
        "recorded_workflows",
        sa.Column("first_run", sa.Text, primary_key=True),
        sa.Column("workflow", sa.Text, primary_key=True),
        sa.Column("next_offset", sa.Integer, nullable=False),
        sa.Column("temporal_run", sa.Text, nullable=False),
        sa.Column("closed", sa.Text),
        sa.Column("complete", sa.Boolean, nullable=False),
    )
    op.create_index("ix_recorded_workflows_unread", "recorded_workflows", ["complete", "closed"])
    op.create_index("ix_recorded_workflows_temporal", "recorded_workflows", ["temporal_run"])
    _make_entries()
    op.create_table(
        "record_checkpoints",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("signature", sa.Text, nullable=False),
    )
    op.create_table(
        "record_counters", sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Integer, nullable=False)
    )
    op.create_table(
        "record_marks", sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
    )
    op.create_table(
        "record_leases",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("until", sa.Float, nullable=False),
    )
    op.execute("INSERT INTO record_counters (name, value) VALUES ('entries', 0)")


def _make_entries() -> None:
    op.create_table(
        "record_entries",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("first_run", sa.Text, nullable=False),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("workflow", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("offset", sa.Integer),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("question", sa.Text),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("salt", sa.Text),
        sa.Column("content", sa.Text),
        sa.UniqueConstraint("first_run", "n"),
        sa.UniqueConstraint("first_run", "workflow", "key"),
    )
    op.create_index("ix_record_entries_offset", "record_entries", ["first_run", "workflow", "offset"])
    op.create_index("ix_record_entries_type", "record_entries", ["first_run", "workflow", "type", "offset"])


def downgrade() -> None:
    """Refuse: an audit is not thrown away by a command."""
    raise RuntimeError("the record is not taken back to an empty database; delete the database instead")
