"""Alembic migrations, applied by `marketplace db upgrade`."""
