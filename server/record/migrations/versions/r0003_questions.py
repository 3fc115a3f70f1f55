"""Ways to find the entries of a question, and those of a type in a run."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the indexes."""
    op.create_index("ix_record_entries_question", "record_entries", ["question"])
    op.create_index("ix_record_entries_run_type", "record_entries", ["first_run", "type"])


def downgrade() -> None:
    """Drop the indexes."""
    op.drop_index("ix_record_entries_run_type", "record_entries")
    op.drop_index("ix_record_entries_question", "record_entries")
