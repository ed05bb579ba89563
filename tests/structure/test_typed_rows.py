"""Rows and views of the money areas are typed where they cross a module's boundary."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[2]
MONEY_AREAS = ("ledger", "orders", "payments", "payouts", "reconciliation", "webhooks")
UNTYPED = re.compile(r"dict\[str, Any\]|Mapping\[str, Any\]|\bRows?\b")
# JSON with keys of its own, and the reason why no class describes it.
_STORED = "JSON as it is stored"
_FACTS = "facts of an alert or an audit entry, stored as they are"
UNTYPED_BY_DESIGN = {
    "ledger.queries.Violation.rows": "rows of any invariant, shown as they are",
    "ledger.queries.build_invariants": "statements of any columns",
    "ledger.queries.find_violations": "statements of any columns",
    "orders.admin_table.CampusOrder.shipping_address": _STORED,
    "orders.placing.place_order.Delivery.address": _STORED,
    "orders.queries.OrderRow.shipping_address": _STORED,
    "orders.transitions.apply_transition": "columns that a transition sets",
    "payments.integrity.drift.raise_drift_and_halt_payouts": _FACTS,
    "payments.refunds.alerts.raise_refund_alert": _FACTS,
    "payouts.batches.decisions.audit_batch_action": _FACTS,
    "payouts.transfers.alerts.raise_batch_alert": _FACTS,
    "payouts.transfers.alerts.raise_payout_alert": _FACTS,
    "webhooks.events.Event.data": "a provider's JSON",
    "webhooks.events.Event.payload": "a provider's JSON",
    "webhooks.queries.WebhookEventDetail.payload": "a provider's JSON",
    "webhooks.queries.WebhookEventFilters.parameters": "parameters of a statement",
}


def public_annotations() -> Iterator[tuple[str, str]]:
    """Name and give the annotations that other modules see: of public functions, methods, and fields of classes."""
    for area in MONEY_AREAS:
        for path in sorted((PROJECT / "marketplace" / area).rglob("*.py")):
            if path.name == "models.py":
                continue  # columns of JSON
            module = ".".join(path.relative_to(PROJECT / "marketplace").with_suffix("").parts)
            yield from _annotations(module, ast.parse(path.read_text(encoding="utf-8")).body)


def _annotations(owner: str, body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node in body:
        match node:
            case ast.ClassDef(name=name) if not name.startswith("_"):
                yield from _annotations(f"{owner}.{name}", node.body)
            case ast.FunctionDef(name=name, args=args) if not name.startswith("_") or name == "__init__":
                parameters = [*args.posonlyargs, *args.args, *args.kwonlyargs]
                for annotation in (node.returns, *(parameter.annotation for parameter in parameters)):
                    if annotation is not None:
                        yield f"{owner}.{name}", ast.unparse(annotation)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                if not name.startswith("_"):
                    yield f"{owner}.{name}", ast.unparse(annotation)


def test_rows_of_money_cross_modules_as_types() -> None:
    untyped = {name for name, annotation in public_annotations() if UNTYPED.search(annotation)}
    assert untyped == set(UNTYPED_BY_DESIGN)
