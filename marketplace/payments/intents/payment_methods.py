"""Payment methods: initialize a hosted page, or an account for a bank transfer.

An intent is leased and committed, then the gateway is called, and its answer is recorded: no transaction is open while
the gateway is called.

A transfer account belongs to the payment's reference, not to its buyer: an account of a customer's own would take any
amount at any time, under references of the gateway's making, and could not tell which order is meant. So what
arrives there is a charge like any other, and ends in the one function that applies it.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database, Statement
from marketplace.kernel.clock import Clock
from marketplace.kernel.errors import ConflictError, ProviderUnavailableError
from marketplace.orders import states as order_states
from marketplace.orders.deadlines import PAYMENT_WINDOW
from marketplace.orders.models import Order
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.lifecycle import Intent, PaymentTarget
from marketplace.payments.models import TRANSFER_ACCOUNT_NUMBER, PaymentTransferAccount
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway.payloads import GatewayTransferAccount
from marketplace.providers.gateway.payments import PaymentGateway, PaymentPage

_WAIT_SECONDS = 12.0
_POLL_SECONDS = 0.1
# The first reference, and one more if the gateway knows the first already: its answer was lost once.
_MAX_REFERENCES = 2
_Initialized = TypeVar("_Initialized")


@dataclass(frozen=True)
class TransferInstructions(GatewayTransferAccount):
    """The account to transfer a payment to, the exact amount in kobo, and the deadline."""

    reference: str
    amount_minor: int


class InitializationInProgressError(ConflictError):
    """Another request is initializing this payment and has not finished in time."""

    reason = "initialization-in-progress"


def open_hosted_page(
    database: Database,
    gateway: PaymentGateway,
    *,
    buyer_id: UUID,
    email: str,
    target: PaymentTarget,
    callback_url: str | None,
    clock: Clock,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Intent, PaymentPage]:
    """Get the page on which somebody pays: the one that is open, or a new one.

    Of several requests at once one asks the gateway, and the others wait for its answer.

    :param buyer_id: who pays
    :param email: what the gateway is told of them
    :param target: what is paid for
    :param callback_url: where the page sends the buyer afterwards
    :param clock: tells the time
    :param sleep: waits so many seconds
    :return: the intent and its page, which the caller records in its own last transaction
    :raises NotFoundError: it is not the buyer's
    :raises NotPayableError: it does not wait for payment
    :raises ProviderUnavailableError: the gateway gave no usable answer; the same call may be made again
    :raises InitializationInProgressError: another request is still at it
    """
    return _initialize_payment(
        database,
        gateway,
        get_intent=partial(
            lifecycle.get_or_create_intent, buyer_id=buyer_id, target=target, callback_url=callback_url
        ),
        find_initialized=lambda _session, intent: intent.page,
        initialize=lambda intent: gateway.initialize_payment(
            reference=intent.reference,
            amount_minor=intent.amount_minor,
            email=email,
            callback_url=intent.callback_url,
            metadata=_charge_metadata(intent),
        ),
        clock=clock,
        sleep=sleep,
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
    get_live_intent = partial(
        lifecycle.get_or_create_intent, buyer_id=buyer_id, target=target, callback_url=callback_url
    )

    def get_intent(session: Session, *, now: datetime) -> Intent:
        intent = get_live_intent(session, now=now)
        account = _find_transfer_account(session, intent)
        if account is None or account.expires_at > now:
            return intent
        # The gateway takes nothing for it any more: another reference gets another account.
        lifecycle.abandon_intent(session, intent_id=intent.id, now=now)
        return get_live_intent(session, now=now)

    return _initialize_payment(
        database,
        gateway,
        get_intent=get_intent,
        find_initialized=_find_transfer_account,
        initialize=lambda intent: gateway.create_transfer_account(
            reference=intent.reference,
            amount_minor=intent.amount_minor,
            email=email,
            expires_at=clock() + PAYMENT_WINDOW,
            metadata=_charge_metadata(intent),
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
        account.bank_name,
        account.account_number,
        account.account_name,
        min(account.expires_at, order_deadline),
        intent.reference,
        intent.amount_minor,
    )


def _initialize_payment(
    database: Database,
    gateway: PaymentGateway,
    *,
    get_intent: Callable[..., Intent],
    find_initialized: Callable[[Session, Intent], _Initialized | None],
    initialize: Callable[[Intent], _Initialized],
    clock: Clock,
    sleep: Callable[[float], None],
) -> tuple[Intent, _Initialized]:
    """Get what somebody pays by: what is open, or what one caller alone asks the gateway for.

    :param get_intent: gets the live intent, or creates it
    :param find_initialized: finds what is open of an intent
    :param initialize: asks the gateway to open an intent
    :return: the intent and what was opened, which the caller records in its own last transaction
    :raises ProviderUnavailableError: the gateway gave no usable answer; the same call may be made again
    :raises InitializationInProgressError: another request is still at it
    """
    for _ in range(_MAX_REFERENCES):
        intent, initialized = _acquire_lease(database, get_intent, find_initialized, clock=clock, sleep=sleep)
        if initialized is not None:
            return intent, initialized
        try:
            return intent, initialize(intent)
        except ProviderUnavailableError:
            database.in_transaction(lifecycle.release_initialization, intent_id=intent.id)
            raise
        except ProviderRefusedError:
            if not _is_reference_known(database, gateway, intent):
                database.in_transaction(lifecycle.release_initialization, intent_id=intent.id)
                break
            # An answer was lost, or the reference was opened another way. A fresh reference takes its place; should
            # money come for the old one after all, it finds its order all the same.
            database.in_transaction(lifecycle.abandon_intent, intent_id=intent.id, now=clock())
    raise ProviderUnavailableError("The payment gateway refused to take the payment.")


def _is_reference_known(database: Database, gateway: PaymentGateway, intent: Intent) -> bool:
    """Ask whether the gateway refused because it knows the reference, or for a reason that a new one won't mend."""
    try:
        return gateway.fetch_charge(intent.reference) is not None
    except ProviderUnavailableError:
        database.in_transaction(lifecycle.release_initialization, intent_id=intent.id)
        raise


def _acquire_lease(
    database: Database,
    get_intent: Callable[..., Intent],
    find_initialized: Callable[[Session, Intent], _Initialized | None],
    *,
    clock: Clock,
    sleep: Callable[[float], None],
) -> tuple[Intent, _Initialized | None]:
    """Give an intent with what is open of it, or one whose opening is ours."""

    def attempt(session: Session, now: datetime) -> tuple[Intent, _Initialized | None, bool]:
        intent = get_intent(session, now=now)
        initialized = find_initialized(session, intent)
        if initialized is None:
            return intent, None, lifecycle.lease_initialization(session, intent=intent, now=now)
        lifecycle.extend_reservations(session, intent=intent, now=now)
        return intent, initialized, True

    for _ in range(int(_WAIT_SECONDS / _POLL_SECONDS)):
        intent, initialized, is_ready = database.in_transaction(attempt, clock())
        if is_ready:
            return intent, initialized
        sleep(_POLL_SECONDS)
    raise InitializationInProgressError(
        "Another request is opening the payment. Try again.", retry_after_seconds=5
    )


def _charge_metadata(intent: Intent) -> dict[str, Any]:
    """Give what comes back with the charge of an intent."""
    return {
        "userId": str(intent.buyer_id),
        "orderId": str(intent.order_ids[0]),
        "checkoutId": str(intent.checkout_id) if intent.checkout_id else None,
        "settlement": "platform_escrow",
    }
