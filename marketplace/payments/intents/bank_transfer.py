"""Paying by bank transfer: an account that the gateway makes for one payment.

The account belongs to the payment's reference, not to its buyer: an account of a customer's own would take any
amount at any time, under references of the gateway's making, and could not tell which order is meant. So what
arrives here is a charge like any other, and ends in the one function that applies it.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database, Statement
from marketplace.kernel.clock import Clock
from marketplace.orders import states as order_states
from marketplace.orders.deadlines import PAYMENT_WINDOW
from marketplace.orders.models import Order
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.hosted_page import PaymentMethodFlow, charge_metadata, initialize_payment
from marketplace.payments.intents.lifecycle import Intent, PaymentTarget
from marketplace.payments.models import TRANSFER_ACCOUNT_NUMBER, PaymentTransferAccount
from marketplace.providers.gateway.payloads import GatewayTransferAccount
from marketplace.providers.gateway.payments import PaymentGateway


@dataclass(frozen=True)
class TransferInstructions:
    """The account to transfer a payment to, the exact amount in kobo, and the deadline."""

    reference: str
    bank_name: str
    account_number: str
    account_name: str
    amount_minor: int
    expires_at: datetime


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
    get_live_intent = partial(
        lifecycle.get_or_create_intent, buyer_id=buyer_id, target=target, callback_url=callback_url
    )

    def get_intent(session: Session, now: datetime) -> Intent:
        intent = get_live_intent(session, now=now)
        account = _find_transfer_account(session, intent)
        if account is None or account.expires_at > now:
            return intent
        # The gateway takes nothing for it any more: another reference gets another account.
        lifecycle.abandon_intent(session, intent_id=intent.id, now=now)
        return get_live_intent(session, now=now)

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
    account = session.get(PaymentTransferAccount, intent.id)
    if account is None:
        return None
    return GatewayTransferAccount(
        account.bank_name, account.account_number, account.account_name, account.expires_at
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
    ),
    encrypted={"account_number": TRANSFER_ACCOUNT_NUMBER},
)


def record_transfer_account(
    session: Session, *, intent: Intent, account: GatewayTransferAccount, now: datetime
) -> TransferInstructions:
    """Record the account that the gateway created.

    :raises NotPayableError: an order was paid, cancelled or expired while the gateway was called
    """
    lifecycle.ensure_intent_payable(session, intent=intent)
    _INSERT_TRANSFER_ACCOUNT.run(session, intent_id=intent.id, now=now, **asdict(account))
    # A transfer that arrives after the order expired is returned.
    order_deadline = session.execute(
        select(func.min(Order.expires_at)).where(
            Order.id.in_(intent.order_ids), Order.status == order_states.PENDING_PAYMENT
        )
    ).scalar_one()
    return TransferInstructions(
        intent.reference,
        account.bank_name,
        account.account_number,
        account.account_name,
        intent.amount_minor,
        min(account.expires_at, order_deadline),
    )
