"""Alembic's environment: it runs the migrations on the connection that `migrate` hands over."""

from __future__ import annotations

from alembic import context

from holdfast.server.record.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
