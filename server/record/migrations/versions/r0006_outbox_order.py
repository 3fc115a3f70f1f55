"""The index by which the outbox finds the earlier notices of a question."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

NAME, TABLE = "ix_notice_outbox_question", "notice_outbox"


def upgrade() -> None:
    """Make the index anew."""
    op.drop_index(NAME, TABLE)
    op.create_index(NAME, TABLE, ["question", "channel", "state", "made"])


def downgrade() -> None:
    """Make the index as it was."""
    op.drop_index(NAME, TABLE)
    op.create_index(NAME, TABLE, ["question"])
