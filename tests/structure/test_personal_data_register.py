"""The register of personal data names each table, each folder of objects and each prefix of cache keys."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg2
import pytest

from marketplace.models import metadata
from marketplace.privacy import register
from marketplace.privacy.erasure_steps import KEPT_COLUMNS, SEALED_COLUMNS, STEPS, ClearColumns, DeleteRows
from marketplace.privacy.rules import OnErasure
from tests.support.servers import PROJECT, Addresses

PERSONAL = {
    table.name: [column.name for column in table.columns if "personal" in column.info]
    for table in metadata.tables.values()
}
LISTS = {
    "PERSONAL_TABLES": set(register.PERSONAL_TABLES),
    "UNLINKED_TABLES": set(register.UNLINKED_TABLES),
    "STAFF_TEXTS": set(register.STAFF_TEXTS),
    "NOT_PERSONAL": set(register.NOT_PERSONAL),
}


def sources() -> Iterator[str]:
    for folder in ("marketplace", "blueprints", "tasks"):
        for path in (PROJECT / folder).rglob("*.py"):
            if path.name != "register.py":
                yield Path(path).read_text("utf-8")


@pytest.mark.parametrize("table", sorted(metadata.tables))
def test_each_table_is_registered_once(table: str) -> None:
    assert len([name for name, tables in LISTS.items() if table in tables]) == 1


def test_register_has_no_further_tables() -> None:
    assert set().union(*LISTS.values()) == set(metadata.tables)


def test_tables_with_personal_columns_are_not_called_impersonal() -> None:
    assert not {table for table in register.NOT_PERSONAL if PERSONAL[table]}


@pytest.mark.parametrize("table", sorted(register.PERSONAL_TABLES))
def test_rows_of_a_person_are_found(table: str, addresses: Addresses) -> None:
    rule = register.PERSONAL_TABLES[table]
    condition = rule.subject.replace(":user_id", "%(user_id)s")
    connection = psycopg2.connect(addresses.database_url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {table} t WHERE {condition}", {"user_id": str(uuid4())})
            assert cursor.fetchone() == (0,)
    finally:
        connection.close()


def test_anonymised_tables_have_personal_columns_or_lose_their_person() -> None:
    anonymised = {
        table for table, rule in register.PERSONAL_TABLES.items() if rule.on_erasure is OnErasure.ANONYMISE
    }
    without = {table for table in anonymised if not PERSONAL[table]}
    # The person of these rows is the profile, which loses its personal columns.
    assert without == {"conversations", "review_products"}


def test_folders_of_objects_are_registered() -> None:
    found = {
        name
        for source in sources()
        for match in re.finditer(r'^_FOLDER = "([\w-]+)"|^_FOLDERS = \{(.+)\}', source, re.MULTILINE)
        for name in ([match[1]] if match[1] else re.findall(r'"([\w-]+)"', match[2]))
    }
    assert found == {keys.prefix for keys in register.OBJECTS}


def test_prefixes_of_cache_keys_are_registered() -> None:
    prefixes = tuple(keys.prefix for keys in register.CACHE_KEYS)
    used = {
        match[1].replace("{_PREFIX}", "m2:")
        for source in sources()
        for match in re.finditer(r'f?"((?:m2:|\{_PREFIX\})\w+:?)', source)
    }
    assert used
    assert not {key for key in used if not key.startswith(prefixes)}


CLEARED = {(step.table, column) for step in STEPS if isinstance(step, ClearColumns) for column in step.values}
DELETED = {step.table for step in STEPS if isinstance(step, DeleteRows)}
FILES = {"images", "private_documents", "privacy_exports"}


@pytest.mark.parametrize("table", sorted(register.PERSONAL_TABLES))
def test_erasure_covers_each_personal_column(table: str) -> None:
    action = register.PERSONAL_TABLES[table].on_erasure
    kept = KEPT_COLUMNS.get(table, frozenset()) | SEALED_COLUMNS.get(table, frozenset())
    left = {
        column
        for column in PERSONAL[table]
        if (table, column) not in CLEARED
        and table not in DELETED | {"profiles"} | FILES
        and column not in kept
    }

    assert not left
    assert not kept or action is OnErasure.RETAIN
    assert kept <= set(PERSONAL[table])
    if action is OnErasure.ERASE:
        assert table in DELETED | FILES
