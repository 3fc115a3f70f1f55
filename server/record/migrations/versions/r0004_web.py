"""Sessions, API tokens and one-time links of the web servers, so that several of them share these."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "web_sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("seal", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("groups", sa.JSON, nullable=False),
        sa.Column("proof", sa.Text, nullable=False),
        sa.Column("only", sa.Text),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("used", sa.Float, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )
    op.create_table(
        "web_tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("seal", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("groups", sa.JSON, nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("is_service", sa.Boolean, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float),
        sa.Column("used", sa.Float),
        sa.Column("revoked", sa.Float),
    )
    op.create_table(
        "web_once",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("seal", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables: everybody signs in again, and API tokens are made anew."""
    for table in ("web_once", "web_tokens", "web_sessions"):
        op.drop_table(table)
