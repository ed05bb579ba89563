"""Check the SQL of migrations: accept only statements known not to block the running service.

PostgreSQL's own parser reads the statements. Bodies of functions, and calls in triggers and defaults of tables,
are not followed.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import alembic.command
from alembic.config import Config
from pglast import ast, parse_sql, split
from pglast.enums import (
    AlterTableType as Action,
    BoolExprType,
    ConstrType,
    LimitOption,
    NullTestType,
    ObjectType,
    TransactionStmtKind,
)

BASELINE = "1014"  # the last revision of the baseline, which runs on empty tables
# Revisions reviewed by hand: the parser cannot judge the swap of a table, which runs under the time-outs of env.py.
_REVIEWED = frozenset({"1081"})
MAX_BATCH_ROWS = 10_000

# These statements change only the catalog and hold locks for milliseconds.
_BRIEF_STATEMENTS = (
    ast.AlterEnumStmt,
    ast.AlterSeqStmt,
    ast.AlterTSConfigurationStmt,
    ast.CommentStmt,
    ast.CreateEnumStmt,
    ast.CreateExtensionStmt,
    ast.CreateFunctionStmt,
    ast.CreateSeqStmt,
    ast.CreateTrigStmt,
    ast.DefineStmt,
    ast.GrantStmt,
    ast.ViewStmt,
)
_BRIEF_DROPS = {
    ObjectType.OBJECT_FUNCTION,
    ObjectType.OBJECT_SEQUENCE,
    ObjectType.OBJECT_TABLE,
    ObjectType.OBJECT_TRIGGER,
    ObjectType.OBJECT_TYPE,
    ObjectType.OBJECT_VIEW,
}
_BRIEF_ACTIONS = {
    Action.AT_ChangeOwner,
    Action.AT_ColumnDefault,
    Action.AT_DisableTrig,
    Action.AT_DropColumn,
    Action.AT_DropConstraint,
    Action.AT_DropNotNull,
    Action.AT_EnableTrig,
    Action.AT_ResetRelOptions,
    Action.AT_SetRelOptions,
    Action.AT_SetStatistics,
}
_NEW_TABLE_ACTIONS = _BRIEF_ACTIONS | {
    Action.AT_AddColumn,
    Action.AT_AddConstraint,
    Action.AT_AlterColumnType,
    Action.AT_SetNotNull,
}
_SERIALS = {"serial", "serial2", "serial4", "serial8", "smallserial", "bigserial"}

_UNKNOWN = "not known to be safe here: see CONTRIBUTING.md, or add it to migration_locks.py with a test"
_OUTSIDE = (
    "only indexes CONCURRENTLY, VALIDATE CONSTRAINT and batches run outside a transaction:"
    " put it into the migration's own transaction"
)
_BATCH = (
    "changes too many rows at once: limit it by WHERE id IN (SELECT id FROM the_same_table WHERE ... LIMIT 1000),"
    f" with id or ctid, without aliases, FROM, USING and WITH, and LIMIT up to {MAX_BATCH_ROWS}"
)
_ADVICE = {
    ast.CreateStmt: "write CREATE TABLE without IF NOT EXISTS, TEMPORARY, UNLOGGED and parents",
    ast.IndexStmt: "blocks writes: use build_index()",
    ast.DropStmt: "drop indexes by DROP INDEX CONCURRENTLY in outside_transaction(); " + _UNKNOWN,
    ast.RenameStmt: "breaks the running version: add under the new name, remove the old one in a later release",
    ast.VariableSetStmt: "the settings of a transaction stay as migrations/env.py makes them",
} | dict.fromkeys(
    (ast.InsertStmt, ast.UpdateStmt, ast.DeleteStmt, ast.MergeStmt, ast.SelectStmt, ast.CreateTableAsStmt),
    "may read or change many rows: use INSERT ... VALUES with constants, or backfill()",
)


@dataclass
class _State:
    """The position in a script of migrations: open transaction, new tables, and checks of NOT NULL.

    Checks have the key (table, constraint) and the value column. The column of another constraint is None.
    """

    in_transaction: bool = False
    new_tables: set[str] = field(default_factory=set)
    added: dict[tuple[str, str], str | None] = field(default_factory=dict)
    validated: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def forget(self, table: str, name: str) -> None:
        """Forget the checks that a dropped constraint or column of this name ends."""
        ended = [
            key for key, column in self.validated.items() if key[0] == table and name in {key[1], column}
        ]
        for key in ended:
            del self.validated[key]


def render_sql(config: Config, revisions: str = f"{BASELINE}:head") -> str:
    """Return the SQL of a range of migrations, as Alembic would send the statements."""
    output = io.StringIO()
    config.output_buffer = output
    alembic.command.upgrade(config, revisions, sql=True)
    parts = re.split(r"^(?=-- Running upgrade )", output.getvalue(), flags=re.MULTILINE)
    return "".join(part for part in parts if not _is_reviewed(part))


def _is_reviewed(part: str) -> bool:
    found = re.match(r"-- Running upgrade \S* -> (\S+)", part)
    return found is not None and found[1] in _REVIEWED


def find_blocking_statements(sql: str) -> list[str]:
    """List the statements of a script that may block the running service, each with advice."""
    state = _State()
    faults = []
    for statement in split(sql):
        [parsed] = parse_sql(statement)
        advice = _refuse(parsed.stmt, state)
        if advice is not None:
            faults.append(f"{statement[:120]}: {advice}")
    return faults


def _refuse(statement: ast.Node, state: _State) -> str | None:
    match statement:
        case ast.TransactionStmt(kind=TransactionStmtKind.TRANS_STMT_BEGIN):
            state.in_transaction = True
            return None
        case ast.TransactionStmt(kind=TransactionStmtKind.TRANS_STMT_COMMIT, chain=False):
            state.in_transaction = False
            state.new_tables.clear()
            return None
    return _refuse_inside(statement, state) if state.in_transaction else _refuse_outside(statement, state)


def _refuse_inside(statement: ast.Node, state: _State) -> str | None:
    match statement:
        case ast.CreateStmt(
            if_not_exists=False, inhRelations=None, relation=ast.RangeVar(relpersistence="p")
        ):
            state.new_tables.add(_name(statement.relation))
            return None
        case ast.AlterTableStmt():
            return _refuse_actions(_name(statement.relation), statement.cmds, state)
        case ast.IndexStmt():
            accepted = _name(statement.relation) in state.new_tables
        case ast.DropStmt():
            accepted = statement.removeType in _BRIEF_DROPS
        case ast.RenameStmt():
            accepted = statement.renameType == ObjectType.OBJECT_INDEX
        case ast.InsertStmt():
            accepted = _is_plain(statement)
        case ast.UpdateStmt() | ast.DeleteStmt():
            # Alembic's version table has a single row.
            few_rows = state.new_tables | {"public.alembic_version"}
            accepted = _name(statement.relation) in few_rows and _is_plain(statement)
        case _:
            accepted = isinstance(statement, _BRIEF_STATEMENTS)
    return None if accepted else _ADVICE.get(type(statement), _UNKNOWN)


def _refuse_outside(statement: ast.Node, state: _State) -> str | None:
    match statement:
        case (
            ast.IndexStmt(concurrent=True)
            | ast.DropStmt(removeType=ObjectType.OBJECT_INDEX, concurrent=True)
            | ast.ReindexStmt(params=(ast.DefElem(defname="concurrently", arg=None),))
            | ast.VariableSetStmt(name="lock_timeout" | "statement_timeout")
        ):
            return None
        case ast.AlterTableStmt(cmds=(ast.AlterTableCmd(subtype=Action.AT_ValidateConstraint, name=name),)):
            key = _name(statement.relation), name
            state.validated[key] = state.added.get(key)
            return None
        case ast.InsertStmt(withClause=None, selectStmt=ast.SelectStmt(withClause=None) as rows):
            return None if _is_plain(statement) or _is_limited(rows) else _BATCH
        case ast.UpdateStmt() | ast.DeleteStmt():
            return None if _is_batch(statement) else _BATCH
    return _OUTSIDE


def _refuse_actions(table: str, actions: tuple[ast.AlterTableCmd, ...], state: _State) -> str | None:
    # PostgreSQL drops first, regardless of the order of the actions.
    for action in actions:
        if action.subtype in {Action.AT_DropColumn, Action.AT_DropConstraint}:
            state.forget(table, action.name)
    if table in state.new_tables:
        return None if all(action.subtype in _NEW_TABLE_ACTIONS for action in actions) else _UNKNOWN
    reasons = [_refuse_action(table, action, state) for action in actions]
    return next((reason for reason in reasons if reason), None)


def _refuse_action(table: str, action: ast.AlterTableCmd, state: _State) -> str | None:
    match action.subtype:
        case Action.AT_AddColumn:
            return _refuse_column(action.def_)
        case Action.AT_AddConstraint:
            return _refuse_constraint(table, action.def_, state)
        case Action.AT_SetNotNull:
            checked = {(key[0], column) for key, column in state.validated.items()}
            accepted = (table, action.name) in checked
            return None if accepted else "reads the table: validate CHECK (column IS NOT NULL) first"
        case Action.AT_ValidateConstraint:
            return "reads the table under a time-out: use validate_constraint()"
    return None if action.subtype in _BRIEF_ACTIONS else _UNKNOWN


def _refuse_column(column: ast.ColumnDef) -> str | None:
    rules = {rule.contype: rule for rule in column.constraints or ()}
    default = rules.pop(ConstrType.CONSTR_DEFAULT, None)
    if column.typeName.names[-1].sval in _SERIALS or (default and not _is_plain(default.raw_expr)):
        return "rewrites the table: give it a constant default, or none and a backfill()"
    if rules.keys() - {ConstrType.CONSTR_NULL, ConstrType.CONSTR_NOTNULL}:
        return "reads or rewrites the table: add its constraints NOT VALID, by statements of their own"
    if ConstrType.CONSTR_NOTNULL in rules and not default:
        return "fails on existing rows: give it a default"
    return None


def _refuse_constraint(table: str, rule: ast.Constraint, state: _State) -> str | None:
    if rule.contype == ConstrType.CONSTR_UNIQUE and rule.indexname:
        return None
    if not rule.skip_validation:
        return "reads the table: add it NOT VALID, then use validate_constraint(). UNIQUE takes USING INDEX"
    match rule.raw_expr:
        case ast.NullTest(
            nulltesttype=NullTestType.IS_NOT_NULL, arg=ast.ColumnRef(fields=(ast.String(sval=column),))
        ):
            state.added[table, rule.conname] = column
        case _:
            state.added[table, rule.conname] = None
    return None


def _is_batch(statement: ast.UpdateStmt | ast.DeleteStmt) -> bool:
    """Return whether a statement takes a limited number of the table's rows by id or ctid."""
    table, where = statement.relation, statement.whereClause
    others = statement.fromClause if isinstance(statement, ast.UpdateStmt) else statement.usingClause
    if table.alias or others or statement.withClause:
        return False
    conjunction = isinstance(where, ast.BoolExpr) and where.boolop == BoolExprType.AND_EXPR
    return any(_picks_batch(part, _name(table)) for part in (where.args if conjunction else (where,)))


def _picks_batch(condition: ast.Node, table: str) -> bool:
    match condition:
        case ast.SubLink(
            operName=None,  # IN
            testexpr=ast.ColumnRef(fields=(ast.String(sval="id" | "ctid"),)),
            # The same name hides the changed row: a query that depends on the row has its limit for each row.
            subselect=ast.SelectStmt(fromClause=(ast.RangeVar(alias=None) as source,)) as query,
        ):
            return _name(source) == table and _is_limited(query)
    return False


def _is_limited(query: ast.SelectStmt) -> bool:
    match query:
        case ast.SelectStmt(
            limitOption=LimitOption.LIMIT_OPTION_COUNT,
            limitCount=ast.A_Const(val=ast.Integer(ival=rows)),
        ):
            return rows <= MAX_BATCH_ROWS
    return False


def _is_plain(part: ast.Node) -> bool:
    """Return whether a part has neither a query nor a call, except ``VALUES`` and ``now()``."""
    for node in _walk(part):
        match node:
            case ast.SelectStmt(valuesLists=None) | ast.WithClause():
                return False
            case ast.FuncCall(funcname=names) if [name.sval for name in names] != ["now"]:
                return False
    return True


def _walk(part: object) -> Iterator[ast.Node]:
    if isinstance(part, tuple):
        for item in part:
            yield from _walk(item)
    elif isinstance(part, ast.Node):
        yield part
        for attribute in part:
            yield from _walk(getattr(part, attribute))


def _name(table: ast.RangeVar) -> str:
    return f"{table.schemaname or 'public'}.{table.relname}"
