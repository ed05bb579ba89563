"""Databases without rows of other tests: migrated rows stay, all other rows are deleted."""

from sqlalchemy import text

from marketplace.infra.db import Database

_TABLES = """
    SELECT quote_ident(tablename) FROM pg_tables
    WHERE schemaname = 'public' AND tablename NOT IN ('alembic_version', 'ledger_accounts')
"""
_DISCONNECT = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_SETTINGS = "SELECT json_agg(s)::text FROM platform_settings s"
_RESTORE_SETTINGS = """
    DELETE FROM platform_settings;
    INSERT INTO platform_settings SELECT * FROM json_populate_recordset(NULL::platform_settings, :settings)
"""


class EmptiedDatabase:
    """A database that returns to the rows that migrations wrote."""

    def __init__(self, database: Database) -> None:
        """List the tables to empty and keep the settings.

        :param database: a migrated database without rows of tests
        """
        self._database = database
        with database.reading() as session:
            tables = list(session.execute(text(_TABLES)).scalars())
            filled = session.execute(text(_filled(tables))).scalars().all()
            self._settings = session.execute(text(_SETTINGS)).scalar_one()
        self._tables = [name for name in tables if name not in filled]

    def empty(self) -> None:
        """Delete all rows of tests, without the triggers that protect the ledger, and restore the settings."""
        with self._database.transaction() as session:
            session.execute(
                text("SET LOCAL lock_timeout = '20s'; SET LOCAL session_replication_role = replica")
            )
            filled = session.execute(text(_filled(self._tables))).scalars().all()
            statements = [f"DELETE FROM {name}" for name in filled]
            statements.append("DELETE FROM ledger_accounts WHERE owner_id IS NOT NULL")
            statements.append(_RESTORE_SETTINGS)
            session.execute(text(";".join(statements)), {"settings": self._settings})

    def disconnect_others(self) -> None:
        """End all other connections, such as those of a process that a test killed."""
        with self._database.transaction() as session:
            session.execute(text(_DISCONNECT))


def _filled(tables: list[str]) -> str:
    """Select the names of the tables that have rows."""
    return " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in tables)
