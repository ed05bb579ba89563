"""Payouts on their way: batches are sent, vendors ask for theirs early, and finance sees to what goes wrong."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from blueprints.http.contract import VENDOR_OR_STAFF, Access, Idempotency, Shared, Token, staff_with
from blueprints.http.endpoint import Area, Context
from blueprints.payouts.transfers.schemas import (
    AskedAnew,
    Dispatch,
    Dispatched,
    ExceptionQuery,
    ExceptionRow,
    GivenUp,
    GiveUp,
    ResolvedException,
    ResolveException,
    StalledQuery,
    StalledRow,
)
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ValidationError
from marketplace.kernel.paging import TablePage
from marketplace.payouts import withdrawals
from marketplace.payouts.transfers import admin_queries, exceptions, polling, void
from marketplace.payouts.transfers import dispatch as transfer_dispatch

area = Area("payout-dispatch", "/api/payouts", "Payouts on their way")

_FINANCE = staff_with("canManageFinances")
_FINANCE_AAL2 = staff_with("canManageFinances", aal2=True)


@dataclass(frozen=True)
class _OfficerOrVendor(Access):
    """A vendor, or an officer of finance with two factors."""

    def check(self, caller: Caller) -> None:
        """Hold a caller against what their role takes.

        :raises ForbiddenError: the account's status, its role or its permissions don't allow it
        :raises StepUpRequiredError: an officer's assurance level is too low
        """
        super().check(caller)
        if caller.is_staff:
            _FINANCE_AAL2.check(caller)


_OFFICER_OR_VENDOR = _OfficerOrVendor(
    "Vendor, or Staff (canManageFinances, AAL2)", Token.REQUIRED, roles=VENDOR_OR_STAFF.roles
)


@area.post(
    "/dispatch", auth=_OFFICER_OR_VENDOR, limit="5/minute", body=Dispatch, reply=Dispatched, status=202,
    idempotent=Idempotency.REQUIRED,
)  # fmt: skip
def dispatch(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Have an approved batch sent, for an officer, or ask for an early payout, for a vendor."""
    if ctx.user.is_staff:
        if "batch_id" not in body:
            raise ValidationError.of("batchId", "An officer names the batch that is sent.")
        sent = transfer_dispatch.dispatch(
            ctx.session, batch_id=body["batch_id"], officer=ctx.user, actor=ctx.actor, now=ctx.now
        )
        return {"payoutId": None} | sent
    if "amount_minor" not in body:
        raise ValidationError.of("amountMinor", "A vendor names what they want to be paid.")
    asked = withdrawals.ask_for_payout(
        ctx.session, caller=ctx.user, amount_minor=body["amount_minor"], now=ctx.now
    )
    return {
        "batchId": None,
        "payoutId": asked["id"],
        "status": asked["status"],
        "payments": 1,
        "amountMinor": asked["amountMinor"],
    }


@area.get(
    "/exceptions", auth=_FINANCE, limit=Shared.GLOBAL, query=ExceptionQuery, reply=ExceptionRow(many=True)
)
def list_exceptions(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List the transfers that failed, came back, or are none of ours."""
    return admin_queries.list_exceptions(
        ctx.session, status=query["status"], outcome=query["outcome"], page=ctx.table
    )


@area.post(
    "/exceptions/<uuid:exception_id>/resolve", auth=_FINANCE, limit="30/minute", body=ResolveException,
    reply=ResolvedException, idempotent=Idempotency.OPTIONAL,
)  # fmt: skip
def resolve_exception(ctx: Context, exception_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Note what was done about a transfer that went wrong; it moves no money."""
    return exceptions.resolve(
        ctx.session,
        exception_id=exception_id,
        note=body["note"],
        officer=ctx.user,
        actor=ctx.actor,
        now=ctx.now,
    )


@area.get("/stalled", auth=_FINANCE, limit=Shared.GLOBAL, query=StalledQuery, reply=StalledRow(many=True))
def list_stalled(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List the payouts that have waited for more than 48 hours, and wait still."""
    return admin_queries.list_stalled(ctx.session, page=ctx.table, now=ctx.now)


@area.post(
    "/<uuid:payout_id>/ask", auth=_FINANCE, limit="30/minute", reply=AskedAnew, status=202,
    idempotent=Idempotency.OPTIONAL,
)  # fmt: skip
def ask_about(ctx: Context, payout_id: UUID) -> dict[str, Any]:
    """Have the gateway asked anew what became of a payout."""
    return polling.ask_anew(ctx.session, payout_id=payout_id, now=ctx.now)


@area.post(
    "/<uuid:payout_id>/give-up", auth=_FINANCE_AAL2, limit="10/minute", body=GiveUp, reply=GivenUp,
    idempotent=Idempotency.OPTIONAL,
)  # fmt: skip
def give_up(ctx: Context, payout_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Give up a payout that certainly was not sent; its money goes back to its payee's balance."""
    return void.give_up(
        ctx.session,
        payout_id=payout_id,
        note=body["note"],
        officer=ctx.user,
        actor=ctx.actor,
        now=ctx.now,
    )
