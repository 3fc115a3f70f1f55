"""The blueprints that runs were started with: the flowchart of a run outlasts Temporal's retention."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table. Runs that are open get their blueprint when the recorder reads them next."""
    op.create_table(
        "recorded_blueprints",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drop the table: flowcharts of runs that Temporal has forgotten are lost."""
    op.drop_table("recorded_blueprints")
