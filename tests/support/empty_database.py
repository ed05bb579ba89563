"""Databases without rows of other tests: all that migrations did not write is deleted."""

from sqlalchemy import text

from marketplace.infra.db import Database

_TABLES = """
    SELECT quote_ident(tablename) FROM pg_tables
    WHERE schemaname = 'public' AND tablename NOT IN ('alembic_version', 'ledger_accounts')
"""


def list_tables_to_empty(database: Database) -> list[str]:
    """List the tables in which migrations left no rows, on a database that nobody has written to yet."""
    with database.reading() as session:
        tables = list(session.execute(text(_TABLES)).scalars())
        filled = session.execute(text(_filled(tables))).scalars().all()
    return [name for name in tables if name not in filled]


def empty(database: Database, tables: list[str]) -> None:
    """Delete all rows, without the triggers that keep the ledger from that."""
    with database.transaction() as session:
        session.execute(text("SET LOCAL lock_timeout = '20s'; SET LOCAL session_replication_role = replica"))
        filled = session.execute(text(_filled(tables))).scalars().all()
        statements = [f"DELETE FROM {name}" for name in filled]
        statements.append("DELETE FROM ledger_accounts WHERE owner_id IS NOT NULL")
        session.execute(text(";".join(statements)))


def _filled(tables: list[str]) -> str:
    """Select the names of the tables that have rows."""
    return " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in tables)
