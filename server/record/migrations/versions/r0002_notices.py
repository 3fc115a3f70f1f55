"""The outbox of notices, and what sign-ins say of people."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "notice_outbox",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("first_run", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("workflow", sa.Text, nullable=False),
        sa.Column("question", sa.Text),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("user", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("made", sa.Float, nullable=False),
        sa.Column("due", sa.Float, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("done", sa.Float),
        sa.Column("body", sa.Text),
    )
    op.create_index("ix_notice_outbox_due", "notice_outbox", ["namespace", "channel", "state", "due"])
    op.create_index("ix_notice_outbox_question", "notice_outbox", ["question"])
    op.create_table(
        "notice_sign_ins",
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("email", sa.Text),
        sa.Column("locale", sa.Text),
        sa.Column("groups", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables: notices that were not sent yet are planned again from the record."""
    op.drop_table("notice_sign_ins")
    op.drop_table("notice_outbox")
