"""Rows and views of the money areas are typed at module boundaries."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

DOMAIN = Path(__file__).parents[2] / "marketplace"
MONEY_AREAS = ("ledger", "orders", "payments", "payouts", "reconciliation", "webhooks")
# Any, object, dicts by str, and dicts of unnamed types.
UNTYPED = re.compile(r"\b(Any|object)\b|(dict|Dict|Mapping)\w*(\[str\b|(?!\w*\[))")
# Reasons why no class describes the values: JSON has free keys, and a lookup is not a row.
_STORED = "JSON as it is stored"
_FACTS = "facts of an alert or an audit entry, stored as they are"
_RECEIVED = "a provider's JSON"
_LOOKUP = "values of one type by a name or a reference"
UNTYPED_BY_DESIGN = {
    "ledger.queries.Violation.rows": "rows of any invariant, shown as they are",
    "ledger.queries.build_invariants": "statements of any columns",
    "ledger.queries.fetch_balances_by_kind": _LOOKUP,
    "ledger.queries.find_violations": "statements of any columns",
    "orders.admin_table.CampusOrder.shipping_address": _STORED,
    "orders.placing.place_order.Delivery.address": _STORED,
    "orders.queries.OrderRow.shipping_address": _STORED,
    "orders.queries.OrderRow.stored_address": _STORED,
    "orders.transitions.apply_transition": "columns that a transition sets",
    "payments.integrity.drift.raise_drift_and_halt_payouts": _FACTS,
    "payments.refunds.alerts.raise_refund_alert": _FACTS,
    "payouts.batches.decisions.audit_batch_action": _FACTS,
    "payouts.transfers.alerts.raise_batch_alert": _FACTS,
    "payouts.transfers.alerts.raise_payout_alert": _FACTS,
    "payouts.transfers.submit.BulkTransferResult.rejected": _LOOKUP,
    "payouts.transfers.submit.BulkTransferResult.sent": _LOOKUP,
    "payouts.transfers.submit.BulkTransferResult.unknown_recipients": _LOOKUP,
    "reconciliation.queries.ReconciliationFigures.balances": _LOOKUP,
    "webhooks.events.Event.data": _RECEIVED,
    "webhooks.events.Event.payload": _RECEIVED,
    "webhooks.events.load_json": _RECEIVED,
    "webhooks.queries.WebhookEventDetail.payload": _RECEIVED,
    "webhooks.stored_payloads.seal_payload": "a provider's payload",
}


def parse_modules(areas: Iterable[str]) -> dict[str, ast.Module]:
    """Parse the modules of areas without models, because model columns may be JSON."""
    return {
        ".".join(path.relative_to(DOMAIN).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
        for area in areas
        for path in sorted((DOMAIN / area).rglob("*.py"))
        if path.name != "models.py"
    }


def find_untyped(modules: dict[str, ast.Module], aliases: set[str]) -> set[str]:
    """Return the functions, methods, classes and fields with untyped annotations.

    :param aliases: names that stand for untyped annotations
    """
    return {
        name
        for module, tree in modules.items()
        for name, annotation in _exposed_annotations(module, tree)
        if _is_untyped(annotation, aliases)
    }


def find_untyped_aliases(modules: Iterable[ast.Module]) -> set[str]:
    """Return the names that modules assign to untyped annotations, also indirectly and by import."""
    values = [pair for tree in modules for node in tree.body for pair in _named_values(node)]
    aliases: set[str] = set()
    while found := {name for name, value in values if _is_untyped(value, aliases)} - aliases:
        aliases |= found
    return aliases


def _is_untyped(annotation: str, aliases: set[str]) -> bool:
    return bool(UNTYPED.search(annotation) or aliases.intersection(re.findall(r"\w+", annotation)))


def _named_values(node: ast.stmt) -> Iterator[tuple[str, str]]:
    match node:
        case ast.ImportFrom(names=names):
            yield from ((name.asname, name.name) for name in names if name.asname)
        case ast.AnnAssign(
            target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias"), value=ast.expr() as value
        ):
            yield name, ast.unparse(value)
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=(
                ast.Name()
                | ast.Attribute()
                | ast.Subscript()
                | ast.BinOp()
                | ast.Call(func=ast.Name(id="NewType"))
            ) as value,
        ):
            yield name, ast.unparse(value)


def _exposed_annotations(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the annotations that other modules see, including private classes named by public code."""
    private = {
        node.name: node for node in tree.body if isinstance(node, ast.ClassDef) and node.name.startswith("_")
    }
    pending = [node for node in tree.body if not isinstance(node, ast.AnnAssign) and _is_public(node)]
    while pending:
        for name, annotation in _annotations(module, pending.pop()):
            yield name, annotation
            pending += [private.pop(word) for word in re.findall(r"\w+", annotation) if word in private]


def _is_public(node: ast.stmt) -> bool:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return not name.startswith("_") or name == "__init__"
    return False


def _annotations(owner: str, node: ast.stmt) -> Iterator[tuple[str, str]]:
    match node:
        case ast.ClassDef(name=name, bases=bases, body=body):
            yield from ((f"{owner}.{name}", ast.unparse(base)) for base in bases)
            for member in body:
                if _is_public(member):
                    yield from _annotations(f"{owner}.{name}", member)
        case ast.FunctionDef(name=name, args=args, returns=returns):
            parameters = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
            for annotation in (returns, *(parameter.annotation for parameter in parameters if parameter)):
                if annotation is not None:
                    yield f"{owner}.{name}", ast.unparse(annotation)
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
            yield f"{owner}.{name}", ast.unparse(annotation)


def test_money_rows_cross_modules_as_types() -> None:
    aliases = find_untyped_aliases(parse_modules([""]).values())

    assert find_untyped(parse_modules(MONEY_AREAS), aliases) == set(UNTYPED_BY_DESIGN)


@pytest.mark.parametrize(
    ("source", "untyped"),
    [
        ("def show() -> dict[str, str | None]: ...", ["show"]),
        ("def show() -> list[dict[str, object]]: ...", ["show"]),
        ("def show() -> Mapping: ...", ["show"]),
        ("def show() -> defaultdict[str, int]: ...", ["show"]),
        ("def extend(row: Any) -> Row: ...", ["extend"]),
        ("def extend(*rows: Any, **values: Any) -> Row: ...", ["extend"]),
        ("class View:\n    refunds: Sequence[Any]", ["View.refunds"]),
        ("class View:\n    @property\n    def payee(self) -> 'dict[str, Any]': ...", ["View.payee"]),
        ("class _Base:\n    payee: dict[str, Any]\nclass View(_Base):\n    id: UUID", ["_Base.payee"]),
        ("class _Row:\n    payee: dict[str, Any]\ndef show() -> list[_Row]: ...", ["_Row.payee"]),
        ("class View(TypedDict):\n    id: UUID", ["View"]),
        ("class View(dict[str, int]): ...", ["View"]),
        ("Json = dict[str, Any]\n_Rows = list[Json] | None\ndef show() -> _Rows: ...", ["show"]),
        ("Json: TypeAlias = dict[str, Any]\ndef show() -> Json: ...", ["show"]),
        ("Json = NewType('Json', dict[str, Any])\ndef show() -> Json: ...", ["show"]),
        ("from typing import Any as Thing\ndef show() -> Thing: ...", ["show"]),
        ("def show() -> dict[UUID, View]: ...", []),
        ("class View:\n    _orders: list[dict[str, Any]]\n    def _load(self) -> Any: ...", []),
        ("class _Row:\n    payee: dict[str, Any]\ndef _load() -> _Row: ...", []),
        ("STATES: dict[str, tuple[str, ...]] = {}", []),
    ],
)
def test_untyped_annotations_are_found(source: str, untyped: list[str]) -> None:
    tree = ast.parse(source)

    assert find_untyped({"area": tree}, find_untyped_aliases([tree])) == {f"area.{name}" for name in untyped}
