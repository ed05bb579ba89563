"""Alembic migrations. `marketplace db upgrade` runs them."""
