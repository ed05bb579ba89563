"""Stores' profiles: what the public sees, and what their owners change, the bank account among it."""

from functools import partial
from typing import Any
from uuid import UUID

from blueprints.http.contract import PUBLIC, VENDOR, Shared
from blueprints.http.endpoint import Area, Context, LastPhase
from blueprints.http.revisions import expected_revision
from blueprints.payouts.stores.schemas import ProfileView, UpdateProfile
from marketplace.payouts.payees import bank_accounts, store_profile
from marketplace.payouts.payees.store_profile import ProfileUpdate
from marketplace.vendors.operations import ProfileChanges, Vacation, check_own

area = Area("vendors", "/api/vendors", "Stores and where their payouts go")


@area.get("/profile/<uuid:vendor_id>", auth=PUBLIC, limit=Shared.GLOBAL, reply=ProfileView)
def show_profile(ctx: Context, vendor_id: UUID) -> dict[str, Any]:
    """Show a store: to whoever runs it with the bank account and what holds payouts back."""
    viewer_id = ctx.caller.id if ctx.caller else None
    return store_profile.profile_of(ctx.session, vendor_id=vendor_id, viewer_id=viewer_id, now=ctx.now)


@area.put(
    "/profile/<uuid:vendor_id>", auth=VENDOR, limit="20/minute", body=UpdateProfile, reply=ProfileView,
    phased=True,
)  # fmt: skip
def update_profile(ctx: Context, vendor_id: UUID, body: dict[str, Any]) -> LastPhase:
    """Change the caller's store; a new bank account is asked about first, and held for a day."""
    revision = expected_revision(body.get("revision"))
    given = body.get("bank_account")
    account = None
    if given is not None:
        with ctx.transaction() as session:
            check_own(session, vendor_id=vendor_id, user_id=ctx.user.id, revision=revision)
        account = bank_accounts.resolve(
            ctx.services.cache, ctx.services.gateway, ctx.services.transfers, **given, within="bankAccount."
        )
    wanted = ProfileUpdate(changes=_changes(body), account=account, revision=revision)
    return LastPhase(
        partial(
            store_profile.update,
            vendor_id=vendor_id,
            user_id=ctx.user.id,
            wanted=wanted,
            actor=ctx.actor,
            now=ctx.now,
        )
    )


def _changes(body: dict[str, Any]) -> ProfileChanges:
    vacation = body.get("vacation_mode")
    return ProfileChanges(
        display_name=body.get("display_name"),
        description=body.get("description"),
        policies=body.get("policies"),
        vacation=None if vacation is None else Vacation(**vacation),
        ends_vacation="vacation_mode" in body and vacation is None,
    )
