"""Adjustments of wallets by officers, as an expense or income of the platform."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.identity.permissions import MANAGE_FINANCES
from marketplace.kernel.errors import ValidationError
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.ledger.queries import fetch_balance
from marketplace.notifications.operations import notify
from marketplace.payments.refunds.buyer_accounts import offset_against_wallet
from marketplace.proposals import texts
from marketplace.proposals.change import Change, Payload

MAX_ADJUSTMENT_MINOR = 100_000_000


class WalletAdjustment(Change):
    """A credit or debit of a person's wallet, which two finance officers decide.

    Other movements of the wallet do not make the proposal stale, because the adjustment is an amount, not a balance.
    """

    ignores_prior_state = True
    permission = MANAGE_FINANCES
    requires_second_factor = True
    # A debit may exceed the balance of a later time, when no officer is there to decide anew.
    schedulable = False

    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        """Check the person, the range of the amount, and for a debit the balance."""
        amount_minor, user_id = payload_input["amount_minor"], payload_input["user_id"]
        if not 0 < abs(amount_minor) <= MAX_ADJUSTMENT_MINOR:
            raise ValidationError.of(
                "payload.amountMinor",
                f"Must be from -{MAX_ADJUSTMENT_MINOR} to {MAX_ADJUSTMENT_MINOR}, but not 0.",
            )
        if session.get(Profile, user_id) is None:
            raise ValidationError.of("payload.userId", "User not found.")
        balance_minor = fetch_balance(session, account=accounts.wallet(user_id))
        if balance_minor + amount_minor < 0:
            raise ValidationError.of(
                "payload.amountMinor", f"A debit must not exceed the wallet's balance ({balance_minor})."
            )
        return {"userId": str(user_id), "amountMinor": amount_minor, "reason": payload_input["reason"]}

    def concerned_person(self, payload: Payload) -> UUID | None:
        """Return the owner of the wallet."""
        return UUID(payload["userId"])

    def target(self, payload: Payload) -> str:
        """Return the id of the wallet's owner."""
        return str(payload["userId"])

    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
        """Return the wallet's balance in kobo."""
        return {"userId": payload["userId"], "balanceMinor": self._balance_minor(session, payload)}

    def proposed_state(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Return the wallet's balance in kobo with the adjustment."""
        balance_minor = self._balance_minor(session, payload) + payload["amountMinor"]
        return {"userId": payload["userId"], "balanceMinor": balance_minor}

    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Return the wallet's balance in kobo after an approval at this moment, and the cost to the platform."""
        return {
            "balanceAfterMinor": self._balance_minor(session, payload) + payload["amountMinor"],
            "platformCostMinor": payload["amountMinor"],
        }

    def apply(self, session: Session, payload: Payload, *, proposal_id: UUID, now: datetime) -> None:
        """Post the adjustment, collect a debt of the wallet's owner, and notify the owner.

        :raises InsufficientFundsError: a debit exceeds the wallet's balance
        """
        user_id, amount_minor = UUID(payload["userId"]), payload["amountMinor"]
        wallet, amount = accounts.wallet(user_id), abs(amount_minor)
        debited, credited = (
            (accounts.WALLET_ADJUSTMENTS, wallet)
            if amount_minor > 0
            else (wallet, accounts.WALLET_ADJUSTMENTS)
        )
        post_transaction(
            session,
            kind="wallet_adjustment",
            source=f"proposal:{proposal_id}",
            description="Adjustment by the platform",
            postings=[Posting(debited, "debit", amount), Posting(credited, "credit", amount)],
            now=now,
        )
        if amount_minor > 0:
            offset_against_wallet(session, buyer_id=user_id, now=now)
        title, body = (
            (texts.WALLET_CREDITED_TITLE, texts.WALLET_CREDITED_BODY)
            if amount_minor > 0
            else (texts.WALLET_DEBITED_TITLE, texts.WALLET_DEBITED_BODY)
        )
        notify(
            session,
            user_id=user_id,
            type="wallet_adjusted",
            title=title,
            body=body.format(amount=format_naira(amount), reason=payload["reason"]),
            link="/wallet",
            cause=f"proposal:{proposal_id}:applied",
            now=now,
        )

    @staticmethod
    def _balance_minor(session: Session, payload: Payload) -> int:
        return fetch_balance(session, account=accounts.wallet(UUID(payload["userId"])))
