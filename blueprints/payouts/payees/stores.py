"""Routes of store profiles, including the owner's bank account for payouts."""

from functools import partial
from typing import Any
from uuid import UUID

from blueprints.http import (
    PUBLIC,
    VENDOR,
    Context,
    ContractBlueprint,
    FinalPhase,
    SharedLimit,
    expected_revision,
)
from blueprints.payouts.payees.schemas import StoreProfileView, UpdateStoreProfile
from marketplace.kernel.errors import StaleRevisionError
from marketplace.payments.intents.banks import UnknownBankAccountError
from marketplace.payouts.payees import bank_accounts, stores
from marketplace.vendors.operations import StoreProfileChanges, ensure_owner_and_revision
from marketplace.vendors.queries import Vacation

area = ContractBlueprint("vendors", "/api/vendors", "Store profiles, with the bank account for payouts")


@area.get("/profile/<uuid:vendor_id>", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, reply=StoreProfileView)
def get_store_profile(ctx: Context, vendor_id: UUID) -> dict[str, Any]:
    """Show a store's profile. The owner also sees the bank account and the payout holds."""
    profile = stores.show_store_profile(
        ctx.session, vendor_id=vendor_id, viewer_id=ctx.caller.id if ctx.caller else None, now=ctx.now
    )
    # A dict may lack the owner's fields, which the renderer then leaves out.
    return vars(profile)


@area.put(
    "/profile/<uuid:vendor_id>", auth=VENDOR, limit="20/minute", body=UpdateStoreProfile, reply=StoreProfileView,
    phased=True,
    raises=(StaleRevisionError, UnknownBankAccountError),
)  # fmt: skip
def update_store_profile(ctx: Context, vendor_id: UUID, body: dict[str, Any]) -> FinalPhase:
    """Change the caller's store profile. Payouts to a new bank account are on hold for 24 hours."""
    revision = expected_revision(body.get("revision"))
    bank_account_input = body.get("bank_account")
    account = None
    if bank_account_input is not None:
        with ctx.transaction() as session:
            ensure_owner_and_revision(session, vendor_id=vendor_id, user_id=ctx.user.id, revision=revision)
        account = bank_accounts.resolve_payout_account(
            ctx.services.cache,
            ctx.services.gateway,
            ctx.services.transfers,
            account_number=bank_account_input["account_number"],
            bank_code=bank_account_input["bank_code"],
            field_prefix="bankAccount.",
        )
    return FinalPhase(
        partial(
            stores.update_store_profile,
            vendor_id=vendor_id,
            user_id=ctx.user.id,
            changes=_profile_changes(body),
            account=account,
            revision=revision,
            act=ctx.act,
        )
    )


def _profile_changes(body: dict[str, Any]) -> StoreProfileChanges:
    vacation = body.get("vacation_mode")
    return StoreProfileChanges(
        display_name=body.get("display_name"),
        description=body.get("description"),
        policies=body.get("policies"),
        vacation=None if vacation is None else Vacation(**vacation),
        end_vacation="vacation_mode" in body and vacation is None,
        opening_hours=body.get("opening_hours"),
        clear_opening_hours="opening_hours" in body and body["opening_hours"] is None,
    )
