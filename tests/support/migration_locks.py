"""Reads the SQL of migrations and finds statements that would block the running service."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import alembic.command
from alembic.config import Config

BASELINE = "1014"  # the last revision of the baseline: its tables are empty when it runs

_TOKENS = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^']|'')*'|(?P<tag>\$\w*\$).*?(?P=tag))|(?P<end>;)",
    re.DOTALL,
)
_NAME = r'(?:"?\w+"?\.)?"?(?P<{}>\w+)"?'
_TABLE = _NAME.format("table")
_CREATE_TABLE = re.compile(
    rf"create (?:unlogged |temp(?:orary)? )?table (?:if not exists )?{_TABLE}(?: |\()", re.IGNORECASE
)
_CREATE_INDEX = re.compile(
    rf"create (?:unique )?index (?P<online>concurrently )?(?:if not exists )?\S+ on (?:only )?{_TABLE}",
    re.IGNORECASE,
)
_INDEX_CHANGE = re.compile(r"(?P<verb>drop index|reindex(?: \w+)?) (?P<online>concurrently )?", re.IGNORECASE)
_ALTER_TABLE = re.compile(
    rf"alter table (?:if exists )?(?:only )?{_TABLE} (?P<actions>.*)", re.IGNORECASE | re.DOTALL
)
_DATA_CHANGE = re.compile(
    rf"(?:with .*\) )?(?:update|delete from|merge into) (?:only )?{_TABLE}(?: |$)",
    re.IGNORECASE | re.DOTALL,
)
_INSERT_SELECT = re.compile(rf"insert into {_TABLE} ?(?:\([^)]*\) )?(?:select|with)\b", re.IGNORECASE)
_HEAVY = re.compile(
    r"(?:truncate|vacuum full|cluster|lock(?: table)?|refresh materialized view(?! concurrently)|do|analyze verbose)"
    r"(?: |$)",
    re.IGNORECASE,
)
_TIMEOUT = re.compile(r"set (?:session |local )?(?:lock|statement)_timeout", re.IGNORECASE)

_ADD_CONSTRAINT = re.compile(
    rf"add constraint {_NAME.format('name')} (?P<rule>.*)", re.IGNORECASE | re.DOTALL
)
_NOT_NULL_CHECK = re.compile(r"check \(\(?\"?(?P<column>\w+)\"? is not null\)?\)", re.IGNORECASE)
_VALIDATE = re.compile(rf"validate constraint {_NAME.format('name')}", re.IGNORECASE)
_SET_NOT_NULL = re.compile(r'alter (?:column )?"?(?P<column>\w+)"? set not null', re.IGNORECASE)
_ADD_COLUMN = re.compile(r"add (?:column )?(?!constraint\b)(?P<definition>.*)", re.IGNORECASE | re.DOTALL)
# Refused in the definition of a new column, each with the reason.
_COLUMN_FAULTS = (
    (r"generated (?:always|by default) as|\b(?:big|small)?serial\b", "rewrites the table"),
    (
        r"default (?:.*\()?(?:random|clock_timestamp|nextval|gen_random_uuid|uuidv[47])\b",
        "rewrites the table",
    ),
    (
        r"\b(?:references|check|unique|primary key)\b",
        "validates a constraint: add it NOT VALID, then validate it",
    ),
)
# Changes of the catalog alone: their lock lasts for milliseconds.
_BRIEF_ACTION = re.compile(
    r"(?:drop (?:column|constraint)|rename|owner to|(?:enable|disable) trigger)\b|set \(|reset \("
    r"|alter (?:column )?\"?\w+\"? (?:set default|drop default|drop not null|set statistics)\b",
    re.IGNORECASE,
)


@dataclass
class _State:
    """The position in a script of migrations: open transaction, new tables and validated checks."""

    in_transaction: bool = False
    new_tables: set[str] = field(default_factory=set)
    added_here: set[tuple[str, str]] = field(default_factory=set)
    not_null_checks: dict[tuple[str, str], str] = field(default_factory=dict)
    validated_columns: set[tuple[str, str]] = field(default_factory=set)


def render_sql(config: Config, after: str = BASELINE) -> str:
    """Write the SQL of all migrations after a revision, as Alembic would send it."""
    output = io.StringIO()
    config.output_buffer = output
    alembic.command.upgrade(config, f"{after}:head", sql=True)
    return output.getvalue()


def find_blocking_statements(sql: str) -> list[str]:
    """List the statements of a script that would block the running service, each with the reason."""
    state = _State()
    faults = []
    for statement in split_statements(sql):
        reason = _find_fault(statement, state)
        if reason is not None:
            faults.append(f"{statement[:120]}: {reason}")
    return faults


def split_statements(sql: str) -> Iterator[str]:
    """Split a script at its semicolons. Comments are removed, white space outside quotes becomes one blank."""
    parts: list[str] = []
    position = 0
    for token in _TOKENS.finditer(sql):
        parts.append(re.sub(r"\s+", " ", sql[position : token.start()]))
        position = token.end()
        if token["text"]:
            parts.append(token["text"])
        elif token["end"]:
            yield "".join(parts).strip()
            parts = []
    parts.append(re.sub(r"\s+", " ", sql[position:]))
    rest = "".join(parts).strip()
    if rest:
        yield rest


def _find_fault(statement: str, state: _State) -> str | None:
    word = statement.lower()
    if word in {"begin", "commit", "rollback"}:
        state.in_transaction = word == "begin"
        if not state.in_transaction:
            state.new_tables.clear()
            state.added_here.clear()
        return None
    created = _CREATE_TABLE.match(statement)
    if created:
        state.new_tables.add(created["table"])
        return "copies a table in one statement" if re.search(r"\bas (?:select|with)\b", word) else None
    altered = _ALTER_TABLE.match(statement)
    if altered:
        reasons = [
            _find_fault_of_action(altered["table"], action, state)
            for action in _split_actions(altered["actions"])
        ]
        return next((reason for reason in reasons if reason), None)
    return _find_fault_of_index(statement, state) or _find_fault_of_data(statement, state)


def _find_fault_of_index(statement: str, state: _State) -> str | None:
    created = _CREATE_INDEX.match(statement)
    if created and created["table"] in state.new_tables:
        return None
    matched = created or _INDEX_CHANGE.match(statement)
    if matched is None:
        return None
    if not matched["online"]:
        return "blocks writes: add CONCURRENTLY, outside a transaction"
    return "CONCURRENTLY does not run inside a transaction" if state.in_transaction else None


def _find_fault_of_data(statement: str, state: _State) -> str | None:
    if state.in_transaction and _TIMEOUT.match(statement):
        return "the time-outs of a transaction stay"
    if _HEAVY.match(statement):
        return "locks a table, or can't be read by this check"
    changed = _DATA_CHANGE.match(statement) or _INSERT_SELECT.match(statement)
    # Alembic's own bookkeeping is one row.
    if changed is None or changed["table"] in state.new_tables | {"alembic_version"}:
        return None
    if state.in_transaction:
        return "changes rows inside the transaction: use backfill()"
    if not re.search(r"\blimit\b", statement, re.IGNORECASE):
        return "changes all rows at once: LIMIT the batch"
    return None


def _split_actions(actions: str) -> Iterator[str]:
    """Split the actions of an ALTER TABLE at the commas outside parentheses and quotes."""
    depth, quoted, start = 0, False, 0
    for position, character in enumerate(actions):
        if character == "'":
            quoted = not quoted
        elif not quoted:
            depth += (character == "(") - (character == ")")
            if character == "," and depth == 0:
                yield actions[start:position].strip()
                start = position + 1
    yield actions[start:].strip()


def _find_fault_of_action(table: str, action: str, state: _State) -> str | None:
    if table in state.new_tables or _BRIEF_ACTION.match(action):
        return None
    reason: str | None = "is not known to be brief"
    if added := _ADD_CONSTRAINT.match(action):
        reason = _find_fault_of_constraint(table, added["name"], added["rule"], state)
    elif validated := _VALIDATE.match(action):
        reason = _validate(table, validated["name"], state)
    elif required := _SET_NOT_NULL.match(action):
        known = (table, required["column"]) in state.validated_columns
        reason = None if known else "reads the table: validate CHECK (column IS NOT NULL) first"
    elif column := _ADD_COLUMN.match(action):
        reason = _find_fault_of_column(column["definition"])
    return reason


def _find_fault_of_constraint(table: str, name: str, rule: str, state: _State) -> str | None:
    if re.match(r"(?:unique|primary key) using index\b", rule, re.IGNORECASE):
        return None
    if not re.search(r"\bnot valid$", rule, re.IGNORECASE):
        return "reads the table: add it NOT VALID, then validate it"
    state.added_here.add((table, name))
    if check := _NOT_NULL_CHECK.match(rule):
        state.not_null_checks[table, name] = check["column"]
    return None


def _validate(table: str, name: str, state: _State) -> str | None:
    if (table, name) in state.added_here:
        return "holds the lock of ADD CONSTRAINT meanwhile: validate it in a later migration"
    column = state.not_null_checks.get((table, name))
    if column:
        state.validated_columns.add((table, column))
    return "reads the table under a time-out: use validate_constraint()" if state.in_transaction else None


def _find_fault_of_column(definition: str) -> str | None:
    text = re.sub(r"'(?:[^']|'')*'", "''", definition)
    for pattern, reason in _COLUMN_FAULTS:
        if re.search(pattern, text, re.IGNORECASE):
            return reason
    if re.search(r"\bnot null\b", text, re.IGNORECASE) and not re.search(r"\bdefault\b", text, re.IGNORECASE):
        return "fails on existing rows: give it a default"
    return None
