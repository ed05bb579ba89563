"""Paying by bank transfer: an account that the gateway makes for one payment.

The account belongs to the payment's reference, not to its buyer: an account of a customer's own would take any
amount at any time, under references of the gateway's making, and could not tell which order is meant. So what
arrives here is a charge like any other, and ends in the one function that applies it.
"""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database, Statement
from marketplace.kernel.clock import Clock
from marketplace.orders.deadlines import PAYMENT_WINDOW
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.hosted_page import PaymentMethodFlow, charge_metadata, initialize_payment
from marketplace.payments.intents.lifecycle import Intent, PaymentTarget
from marketplace.providers.gateway.banks import GatewayTransferAccount
from marketplace.providers.gateway.payments import PaymentGateway

_SELECT_TRANSFER_ACCOUNT = Statement(
    text(
        """
        SELECT bank_name, account_number, account_name, expires_at FROM transfer_accounts
        WHERE intent_id = :intent_id
        """
    )
)
_INSERT_TRANSFER_ACCOUNT = Statement(
    text(
        """
        WITH shown AS (
            UPDATE orders SET payment_status = 'pending' FROM payment_allocations a
            WHERE a.intent_id = :intent_id AND a.live AND orders.id = a.order_id
                AND orders.status = 'pending_payment'
        ), opened AS (
            UPDATE payment_intents SET status = 'pending', opening_until = NULL, updated_at = :now
            WHERE id = :intent_id
        )
        INSERT INTO transfer_accounts
            (intent_id, bank_name, account_number, account_name, expires_at, created_at)
        VALUES (:intent_id, :bank_name, :account_number, :account_name, :expires_at, :now)
        ON CONFLICT (intent_id) DO NOTHING
        """
    )
)
_SELECT_PAYMENT_DEADLINE = Statement(
    text(
        "SELECT min(expires_at) AS until FROM orders WHERE id = ANY(:order_ids) AND status = 'pending_payment'"
    )
)


def open_transfer_account(
    database: Database,
    gateway: PaymentGateway,
    *,
    buyer_id: UUID,
    email: str,
    target: PaymentTarget,
    callback_url: str | None,
    clock: Clock,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Intent, GatewayTransferAccount]:
    """Get the account to transfer a payment to: the one that is open, or a new one.

    Of several requests at once one asks the gateway, and the others wait for its answer.

    :param buyer_id: who pays
    :param email: what the gateway is told of them
    :param target: what is paid for
    :param callback_url: where a payment page, should one be opened instead, sends the buyer afterwards
    :param clock: tells the time
    :param sleep: waits so many seconds
    :return: the intent and its account, which the caller records in its own last transaction
    :raises NotFoundError: it is not the buyer's
    :raises NotPayableError: it does not wait for payment
    :raises ProviderUnavailableError: the gateway gave no usable answer; the same call may be made again
    :raises InitializationInProgressError: another request is still at it
    """

    def get_intent(session: Session, now: datetime) -> Intent:
        def get_live_intent() -> Intent:
            return lifecycle.get_or_create_intent(
                session, buyer_id=buyer_id, target=target, callback_url=callback_url, now=now
            )

        intent = get_live_intent()
        account = _find_transfer_account(session, intent)
        if account is None or account.expires_at > now:
            return intent
        # The gateway takes nothing for it any more: another reference gets another account.
        lifecycle.abandon_intent(session, intent_id=intent.id, now=now)
        return get_live_intent()

    return initialize_payment(
        database,
        gateway,
        PaymentMethodFlow(
            get_intent=get_intent,
            find_initialized=_find_transfer_account,
            initialize=lambda intent: gateway.create_transfer_account(
                reference=intent.reference,
                amount_minor=intent.amount_minor,
                email=email,
                expires_at=clock() + PAYMENT_WINDOW,
                metadata=charge_metadata(intent),
            ),
        ),
        clock=clock,
        sleep=sleep,
    )


def _find_transfer_account(session: Session, intent: Intent) -> GatewayTransferAccount | None:
    row = _SELECT_TRANSFER_ACCOUNT.first(session, intent_id=intent.id)
    return GatewayTransferAccount(**row) if row else None


def record_transfer_account(
    session: Session, *, intent: Intent, account: GatewayTransferAccount, now: datetime
) -> dict[str, Any]:
    """Keep the account that the gateway made, and give it as clients see it.

    :raises NotPayableError: an order of it was paid, cancelled or given up while the gateway was asked
    """
    lifecycle.ensure_intent_payable(session, intent=intent)
    _INSERT_TRANSFER_ACCOUNT.run(
        session,
        intent_id=intent.id,
        bank_name=account.bank_name,
        account_number=account.account_number,
        account_name=account.account_name,
        expires_at=account.expires_at,
        now=now,
    )
    until = _SELECT_PAYMENT_DEADLINE.one(session, order_ids=list(intent.order_ids))["until"]
    return {
        "reference": intent.reference,
        "bankName": account.bank_name,
        "accountNumber": account.account_number,
        "accountName": account.account_name,
        "amountMinor": intent.amount_minor,
        # What arrives after the order's own time may find it expired, and goes back.
        "expiresAt": min(account.expires_at, until),
    }
