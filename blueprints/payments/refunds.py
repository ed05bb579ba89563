"""Finance's desk: refunds out of escrow, refunds that failed, and charges that are held back."""

from functools import partial
from typing import Any
from uuid import UUID

from blueprints.http.contract import Idempotency, Shared, staff_with
from blueprints.http.endpoint import Area, Context, LastPhase
from blueprints.payments.schemas import (
    MendedRefund,
    ProcessedRefund,
    ProcessRefund,
    QuarantineQuery,
    QuarantineRow,
    RefundQuery,
    RefundRow,
    Resolution,
    Resolve,
)
from marketplace.kernel.paging import TablePage
from marketplace.payments import admin_queries, states
from marketplace.payments.charges import quarantine
from marketplace.payments.refunds import recovery
from marketplace.payments.refunds.admin_refund import Pieces, Wanted, process_refund
from marketplace.payments.refunds.clawback import claw_back

area = Area("refunds", "/api/payments", "Refunds and held charges, for finance")

_FINANCE = staff_with("canManageFinances")
_FINANCE_AAL2 = staff_with("canManageFinances", aal2=True)


@area.post(
    "/order/<uuid:order_id>/process-refund", auth=_FINANCE_AAL2, limit="10/minute", body=ProcessRefund,
    reply=ProcessedRefund, idempotent=Idempotency.OPTIONAL,
)  # fmt: skip
def refund_order(ctx: Context, order_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Refund an order, out of its escrow or, after the release, by a clawback.

    Wholly or in part; a worker has the gateway send it.
    """
    wanted = Wanted(
        destination=body["destination"],
        reason=body["reason"],
        amount_minor=body.get("amount_minor"),
        items=[Pieces(**item) for item in body.get("items", ())],
    )
    work = claw_back if body["clawback"] else process_refund
    return work(ctx.session, order_id=order_id, officer=ctx.user, actor=ctx.actor, wanted=wanted, now=ctx.now)


@area.get("/refunds", auth=_FINANCE, limit=Shared.GLOBAL, query=RefundQuery, reply=RefundRow(many=True))
def list_refunds(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List refunds with how far and how old they are."""
    filters = admin_queries.RefundFilters(**query)
    return admin_queries.list_refunds(ctx.session, filters=filters, page=ctx.table, now=ctx.now)


@area.post(
    "/refunds/<uuid:refund_id>/retry", auth=_FINANCE_AAL2, limit="10/minute", reply=MendedRefund,
    idempotent=Idempotency.OPTIONAL, phased=True,
)  # fmt: skip
def retry_refund(ctx: Context, refund_id: UUID) -> LastPhase:
    """Have the gateway try a refund again that failed, once it has said that it did not send it."""
    return _mend(ctx, refund_id, states.RETRY)


@area.post(
    "/refunds/<uuid:refund_id>/credit", auth=_FINANCE_AAL2, limit="10/minute", reply=MendedRefund,
    idempotent=Idempotency.OPTIONAL, phased=True,
)  # fmt: skip
def credit_refund(ctx: Context, refund_id: UUID) -> LastPhase:
    """Give the buyer's wallet what the gateway has said that it did not send of a refund."""
    return _mend(ctx, refund_id, states.CREDIT)


def _mend(ctx: Context, refund_id: UUID, trigger: str) -> LastPhase:
    with ctx.transaction() as session:
        stuck = recovery.find_stuck(session, refund_id=refund_id, trigger=trigger, officer=ctx.user)
    known = recovery.ask(ctx.services.gateway, stuck)
    work = recovery.retry if trigger == states.RETRY else recovery.credit
    return LastPhase(partial(work, stuck=stuck, known=known, actor=ctx.actor, now=ctx.now))


@area.get(
    "/quarantine", auth=_FINANCE, limit=Shared.GLOBAL, query=QuarantineQuery, reply=QuarantineRow(many=True)
)
def list_quarantine(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List the charges that are, or were, held back."""
    return admin_queries.list_quarantine(
        ctx.session, status=query["status"], reason=query["reason"], page=ctx.table
    )


@area.post(
    "/quarantine/<uuid:held_id>/resolve", auth=_FINANCE_AAL2, limit="10/minute", body=Resolve,
    reply=Resolution, idempotent=Idempotency.OPTIONAL,
)  # fmt: skip
def resolve_quarantine(ctx: Context, held_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Decide what becomes of a charge that is held back."""
    return quarantine.resolve(
        ctx.session,
        held_id=held_id,
        action=body["action"],
        note=body["note"],
        officer=ctx.user,
        actor=ctx.actor,
        now=ctx.now,
    )
