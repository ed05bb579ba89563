"""SQL of the domain: allowed places of text, allowed interpolation, and agreement with the migrated schema.

The rules are in docs/decisions/0005.
"""

import ast
import contextlib
import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extensions
import pytest

import commands
import marketplace
from marketplace.catalog.browse import listing, vendor_inventory
from marketplace.catalog.campus_filter import CAMPUS_PARAMETERS
from marketplace.catalog.promotions import (
    featured,
    flash_sale_listing,
    listing as promotion_listing,
    vibes,
)
from marketplace.catalog.promotions.banners import BANNER_TABLE
from marketplace.catalog.promotions.featured import FEATURED_TABLE
from marketplace.catalog.promotions.vibes import VIBE_TABLE
from marketplace.catalog.search import suggestions
from marketplace.catalog.search.ranking_sql import SearchStep, search_statement
from marketplace.infra.encryption import EncryptedText
from marketplace.infra.sql.statements import Statement
from marketplace.infra.sql.tables import SortedTable
from marketplace.models import metadata
from marketplace.orders import admin_table, transitions

PROJECT = Path(__file__).parents[2]
PACKAGES = (marketplace, commands)
CONSTANT_NAME = re.compile(r"_?[A-Z][A-Z0-9_]*")
# Functions that build SQL from parameters, and the reason why parameters cannot be request data.
SQL_BUILDERS = {
    "commands.seed.seed_database": "takes the names of the models' tables",
    "commands.seeding.loading.copy_rows": "takes the names of a model's table and columns",
    "commands.seeding.pictures._caption": "draws a text on a picture",
    "marketplace.audit.partitions._create_partition": "takes the name and the times of a month",
    "marketplace.audit.partitions._drop_partition": "takes a checked name of the catalogue",
    "marketplace.catalog.promotions.listing._listing_statement": "takes constants of the promotions' listings",
    "marketplace.catalog.search.ranking_sql._ranked_candidates_sql": "takes names of CAMPUS_PARAMETERS",
    "marketplace.catalog.search.suggestions._suggestions_statement": "takes names of CAMPUS_PARAMETERS",
    "marketplace.infra.sql.tables.__init__": "called at import with constants",
    "marketplace.ledger.queries.build_invariants": "called at import with literal queries",
    "marketplace.orders.admin_table._count_statement": "takes names of _CONDITIONS",
    "marketplace.orders.admin_table._ids_statement": "takes names of _CONDITIONS and of sort columns",
    "marketplace.orders.transitions._transition_statement": "takes columns that the transitions' code names",
    "marketplace.privacy.erasure._read_keys": "takes conditions of the steps",
    "marketplace.privacy.erasure_plans._count_rows": "takes names and conditions of the register",
    "marketplace.payouts.payees.payout_history._build_page_statement": "called at import with constants",
    "marketplace.privacy.archive._read_rows": "takes conditions of the register",
}
# Functions that build the statements of module constants, which are prepared as such.
BUILDERS_OF_CONSTANTS = {
    "marketplace.ledger.queries.build_invariants",
    "marketplace.payouts.payees.payout_history._build_page_statement",
}
# Parameter types that PostgreSQL cannot infer, because the driver sends typed literals.
PARAMETER_TYPES = {"now": "timestamptz", "first": "interval", "first_day": "date", "last_day": "date"}
CAMEL_CASE_LABEL = re.compile(r'\bAS "[a-z]+[A-Z]\w*"')
STATEMENT_CLASSES = ("Prepared", "Statement")
DEFINITIONS = (ast.ClassDef, ast.FunctionDef)
# Constructs beyond a plain statement on a single table.
BEYOND_PLAIN = re.compile(
    r"\bwith\b|\bfor (no key )?(update|share)\b|\bfor key share\b|\bunnest\b|\bon conflict\b|\bjoin\b|\bexists\b"
    r"|\blateral\b|\bunion\b|\bfilter\b|\(\s*select\b|\bgroup by\b|\badvisory"
    r"|\b(array_agg|count|max|min|sum)\("
)
TABLE = re.compile(r"\b(?:from|join|update|into)\s+\w+")
SETTINGS = re.compile(r"SET\b")  # statements that PostgreSQL does not prepare


@cache
def parsed_modules() -> dict[str, ast.Module]:
    paths = sorted(path for package in PACKAGES for path in (PROJECT / package.__name__).rglob("*.py"))
    return {
        ".".join(path.relative_to(PROJECT).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
        for path in paths
    }


def is_constant(node: ast.expr) -> bool:
    """Return whether an expression consists only of literals and names in capitals."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return CONSTANT_NAME.fullmatch(name) is not None
        case ast.JoinedStr(values=parts):
            return all(map(is_constant, parts))
        case ast.FormattedValue(value=value):
            return is_constant(value)
        case ast.BinOp(left=left, right=right) | ast.IfExp(body=left, orelse=right):
            return is_constant(left) and is_constant(right)
        case ast.Call(func=ast.Attribute(value=template, attr="format"), args=[], keywords=keywords):
            return all(map(is_constant, [template, *(keyword.value for keyword in keywords)]))
    return isinstance(node, ast.Constant)


def is_interpolation(call: ast.Call) -> bool:
    """Return whether a call takes SQL text with more than constants."""
    called = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", None)
    sql = call.args[0] if call.args else ast.Constant(None)
    # Core statements, also accepted by execute(), have no text.
    is_text = called in ("text", "literal_column") or (
        called == "execute" and isinstance(sql, ast.JoinedStr | ast.BinOp)
    )
    return is_text and not is_constant(sql)


def interpolating_functions() -> Iterator[str]:
    """Name the functions that interpolate more than constants. Code outside functions runs at import."""
    for name, module in parsed_modules().items():
        for function in ast.walk(module):
            if isinstance(function, ast.FunctionDef) and any(
                isinstance(node, ast.Call) and is_interpolation(node) for node in ast.walk(function)
            ):
                yield f"{name}.{function.name}"


def test_sql_text_interpolates_only_constants() -> None:
    assert set(interpolating_functions()) == set(SQL_BUILDERS)


def test_sql_text_has_no_camel_case_labels() -> None:
    labels = {
        f"{name}: {label}"
        for name, module in parsed_modules().items()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for label in CAMEL_CASE_LABEL.findall(node.value)
    }

    assert labels == set()


def is_statement(node: ast.stmt) -> bool:
    """Return whether a module-level assignment makes a statement."""
    return isinstance(node, ast.Assign | ast.AnnAssign) and any(
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in STATEMENT_CLASSES
        for call in ast.walk(node)
    )


def misplaced_statements() -> Iterator[str]:
    """Yield the names of statements that are not directly above the first function or class that uses the statement."""
    for name, module in parsed_modules().items():
        for position, node in enumerate(module.body):
            if not is_statement(node):
                continue
            [target] = node.targets if isinstance(node, ast.Assign) else [node.target]
            constant = ast.unparse(target)
            users = [other for other in module.body if other is not node and uses(other, constant)]
            definitions = [other for other in module.body[position:] if isinstance(other, DEFINITIONS)]
            if users and isinstance(users[0], DEFINITIONS) and users[0] not in definitions[:1]:
                yield f"{name}.{constant}"


def uses(node: ast.AST, constant: str) -> bool:
    return any(isinstance(name, ast.Name) and name.id == constant for name in ast.walk(node))


def test_statements_are_defined_directly_above_the_first_use() -> None:
    assert set(misplaced_statements()) == set()


def module_statements() -> Iterator[tuple[str, Statement[Any]]]:
    """Yield each module-level statement with a label, alone or in a dict or sequence."""
    seen: set[int] = set()
    names = (
        module.name
        for package in PACKAGES
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    )
    for module in map(importlib.import_module, names):
        for name, value in vars(module).items():
            for label, statement in nested_statements(f"{module.__name__}.{name}", value):
                if id(statement) not in seen:
                    seen.add(id(statement))
                    yield label, statement


def nested_statements(label: str, value: Any) -> Iterator[tuple[str, Statement[Any]]]:
    if isinstance(value, Statement):
        yield label, value
    elif isinstance(value, SortedTable):
        yield from nested_statements(label, [value.count, value.pages])
    elif isinstance(value, dict | list | tuple):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from nested_statements(f"{label}[{key!r}]", item)


def conditions(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return no condition, and each condition alone."""
    return [(), *((name,) for name in names)]


def transition_columns() -> list[tuple[str, ...]]:
    """List the sets of columns that order transitions set besides the status."""
    functions = {
        node.name: node
        for node in parsed_modules()["marketplace.orders.operations"].body
        if isinstance(node, ast.FunctionDef)
    }

    def column_sets(node: ast.expr) -> set[frozenset[Any]]:
        match node:
            case ast.Dict(keys=keys):
                return {frozenset(key.value for key in keys if isinstance(key, ast.Constant))}
            case ast.BinOp(left=left, right=right):
                return {one | other for one, other in product(column_sets(left), column_sets(right))}
            case ast.IfExp(body=body, orelse=orelse):
                return column_sets(body) | column_sets(orelse)
            case ast.Call(func=ast.Name(id=name)):
                [returned] = [one.value for one in ast.walk(functions[name]) if isinstance(one, ast.Return)]
                assert returned is not None
                return column_sets(returned)
        raise AssertionError(f"unknown columns of a transition: {ast.unparse(node)}")

    found = {frozenset[Any]()}
    for function in functions.values():
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "apply_transition":
                for keyword in node.keywords:
                    found |= column_sets(keyword.value) if keyword.arg == "columns" else set()
    return sorted(tuple(sorted(columns)) for columns in found)


def built_statements() -> Iterator[tuple[str, Statement[Any]]]:
    """Yield the statements of builder functions for all arguments that change the SQL."""
    flags = (False, True)
    steps = [SearchStep(vector, scans_by_popularity=scans) for vector in ("title", "body") for scans in flags]
    promotions = [table.select for table in (BANNER_TABLE, FEATURED_TABLE, VIBE_TABLE)]
    promotion_states = [(condition,) for condition in promotion_listing._STATE_CONDITIONS.values()]
    listing_conditions = listing._CONDITIONS.keys() - {"trends"}
    sale_states = (None, *flash_sale_listing.PUBLIC_STATES)
    for build, *arguments in (
        (listing._listing_statement, listing.SORTS, conditions(listing_conditions), flags, (False,)),
        (listing._listing_statement, ["trending"], [("trends",)], flags, (False,)),
        (vendor_inventory._page_statement, vendor_inventory.SORTS, [()], flags, flags),
        (vendor_inventory._count_statement, conditions(vendor_inventory._CONDITIONS)),
        (search_statement, product(steps, repeat=3), [None], flags),
        (search_statement, [(steps[0],) * 3], CAMPUS_PARAMETERS, flags),
        (suggestions._suggestions_statement, CAMPUS_PARAMETERS, suggestions._CANDIDATES),
        (promotion_listing._listing_statement, promotions, promotion_states, ["t.position, t.id"]),
        (flash_sale_listing._public_statement, sale_states, CAMPUS_PARAMETERS, flags),
        (featured._cards_statement, CAMPUS_PARAMETERS, flags),
        (vibes._cards_statement, CAMPUS_PARAMETERS),
        (admin_table._ids_statement, admin_table.SORTS, conditions(admin_table._CONDITIONS), flags),
        (admin_table._count_statement, conditions(admin_table._CONDITIONS)),
        (
            transitions._transition_statement,
            transition_columns(),
            flags,
            (
                None,
                transitions._COUNT_COMPLETED,
                transitions._COUNT_FAILED,
                transitions._COUNT_RESPONSE,
            ),
        ),
    ):
        names = list(signature(build).parameters)
        for values in product(*arguments):
            choice = dict(zip(names, values, strict=True))
            yield f"{build.__module__}.{build.__name__}({choice})", build(**choice)


@pytest.fixture(scope="module")
def statements() -> dict[str, Statement[Any]]:
    return {**dict(module_statements()), **dict(built_statements())}


def statement_builders() -> Iterator[str]:
    """Yield the names of functions that return statements."""
    for name, module in parsed_modules().items():
        for function in ast.walk(module):
            if isinstance(function, ast.FunctionDef) and function.returns is not None:
                returned = {node.id for node in ast.walk(function.returns) if isinstance(node, ast.Name)}
                if returned & set(STATEMENT_CLASSES):
                    yield f"{name}.{function.name}"


def test_statements_of_each_builder_are_prepared() -> None:
    prepared = {label.partition("(")[0] for label, _statement in built_statements()}

    assert prepared | BUILDERS_OF_CONSTANTS == set(statement_builders())


def prepare(cursor: Any, statement: Statement[Any]) -> int:
    """Prepare a statement as ``checked`` and return the number of parameters."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement.sql)))
    body = statement.sql % {name: f"${number}" for number, name in enumerate(names, start=1)}
    types = ", ".join(PARAMETER_TYPES.get(name, "unknown") for name in names)
    cursor.execute(f"PREPARE checked {f'({types})' if types else ''} AS {body}")
    return len(names)


def is_plain(statement: Statement[Any]) -> bool:
    """Return whether a statement reads or writes a single table without locks, joins or further effects."""
    sql = re.sub(r"\bdistinct from\b|\bextract\(\w+ from\b", " ", re.sub(r"\s+", " ", statement.sql.lower()))
    return not BEYOND_PLAIN.search(sql) and len(TABLE.findall(sql)) == 1


def test_plain_statements_are_text_only_on_hot_paths(
    statements: dict[str, Statement[Any]],
) -> None:
    """Sortable tables (``SortedTable``) are not plain, because each order has a separate statement."""
    rules = (PROJECT / "docs" / "decisions" / "0005-core-statements-on-hot-paths.md").read_text(
        encoding="utf-8"
    )
    hot = set(re.findall(r"^\| `([\w.]+)` \|", rules, re.MULTILINE))
    plain = {
        label.removeprefix("marketplace.")
        for label, one in module_statements()
        if is_plain(one) and "[" not in label
    }

    assert plain == hot


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg2.extensions.connection]:
    """A separate connection, because the shared connections record prepared statements."""
    with closing(psycopg2.connect(database_url)) as one:
        yield one


def test_statements_can_be_prepared_with_the_migrated_schema(
    statements: dict[str, Statement[Any]], connection: psycopg2.extensions.connection
) -> None:
    errors = {}
    with connection.cursor() as cursor:
        for label, statement in statements.items():
            if SETTINGS.match(statement.sql):
                continue
            try:
                prepare(cursor, statement)
            except psycopg2.Error as error:
                errors[label] = str(error)
            connection.rollback()
            cursor.execute("DEALLOCATE ALL")

    assert errors == {}


def test_row_classes_match_the_statement_columns(
    statements: dict[str, Statement[Any]], connection: psycopg2.extensions.connection
) -> None:
    """Run each statement with NULL for all parameters and compare the column labels."""
    differences = {}
    with connection.cursor() as cursor:
        for label, statement in statements.items():
            if statement.row is None:
                continue
            nulls = ", ".join(["NULL"] * prepare(cursor, statement))
            try:
                cursor.execute(f"EXECUTE checked {f'({nulls})' if nulls else ''}")
            except psycopg2.errors.NotNullViolation:
                pass  # An INSERT returns column names only on success.
            except psycopg2.Error as error:
                differences[label] = str(error)
            else:
                columns = [column.name for column in cursor.description or ()]
                fields = [field.name for field in dataclasses.fields(statement.row)]
                if columns != fields or hasattr(statement.row, "__slots__"):
                    differences[label] = f"columns {columns}, fields {fields}; a row class has no slots"
            connection.rollback()
            cursor.execute("DEALLOCATE ALL")

    assert differences == {}


def test_statements_declare_all_encrypted_columns(
    statements: dict[str, Statement[Any]], connection: psycopg2.extensions.connection
) -> None:
    """Find the origin of each result column, independent of the label, and compare the declared type."""
    encrypted = {
        (column.table.name, column.name): column.type
        for table in metadata.tables.values()
        for column in table.columns
        if isinstance(column.type, EncryptedText)
    }
    tables = ", ".join(f"'{table}'" for table, _column in encrypted)
    origins = (
        "SELECT attrelid, attnum, relname, attname FROM pg_attribute JOIN pg_class c ON c.oid = attrelid"
        f" WHERE relname IN ({tables})"
    )
    differences, declared = {}, 0
    with connection.cursor() as cursor:
        cursor.execute(origins)
        columns = {(table_oid, number): (table, name) for table_oid, number, table, name in cursor.fetchall()}
        for label, statement in statements.items():
            if SETTINGS.match(statement.sql) or not any(table in statement.sql for table, _ in encrypted):
                continue
            nulls = ", ".join(["NULL"] * prepare(cursor, statement))
            # A refused NULL stops the statement before a result.
            with contextlib.suppress(psycopg2.IntegrityError):
                cursor.execute(f"EXECUTE checked {f'({nulls})' if nulls else ''}")
            wanted = {
                column.name: encrypted[origin]
                for column in cursor.description or ()
                if (origin := columns.get((column.table_oid, column.table_column))) in encrypted
            }
            declared += len(wanted)
            found = statement.encrypted if cursor.description else wanted
            if found != wanted:
                differences[label] = f"has {found.keys()}, wants {wanted.keys()}"
            connection.rollback()
            cursor.execute("DEALLOCATE ALL")

    assert differences == {}
    assert declared
