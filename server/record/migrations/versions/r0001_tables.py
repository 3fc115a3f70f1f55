"""The tables of the first version.

They are those of `tables.py` until the first release. Whoever writes the second version writes them out here first: a
database that is made new goes through every version.
"""

from __future__ import annotations

from alembic import op

from holdfast.server.record.tables import COUNTERS, METADATA

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    METADATA.create_all(op.get_bind(), checkfirst=False)
    op.execute(COUNTERS.insert().values(name="entries", value=0))


def downgrade() -> None:
    """Refuse: an audit is not thrown away by a command."""
    raise RuntimeError("the record is not taken back to an empty database; delete the database instead")
