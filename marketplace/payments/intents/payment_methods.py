"""Payment methods: the gateway's hosted page, and accounts for bank transfers.

The lease on an intent is committed before the call to the gateway, and the result is recorded afterwards. No
transaction is open during the call.

A transfer account belongs to a payment reference, not to a buyer. A permanent account of a customer would accept any
amount at any time without naming the order. A transfer to the account is therefore an ordinary charge of the payment.
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

from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.clock import Clock
from marketplace.kernel.errors import ConflictError, ProviderUnavailableError
from marketplace.orders import states as order_states
from marketplace.orders.deadlines import PAYMENT_WINDOW
from marketplace.orders.models import Order
from marketplace.payments import texts
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.lifecycle import Intent, PaymentTarget
from marketplace.payments.models import TRANSFER_ACCOUNT_NUMBER, PaymentTransferAccount
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway.payloads import GatewayTransferAccount
from marketplace.providers.gateway.payments import PaymentGateway, PaymentPage

_WAIT_SECONDS = 12.0
_POLL_SECONDS = 0.1
# A second reference is needed if the gateway already knows the first, because an earlier response was lost.
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
    """Get the open hosted page of a payment target, or have the gateway open a page.

    Among concurrent requests, only one calls the gateway and the others wait for the result.

    :param email: the e-mail address that the gateway stores for the buyer
    :param callback_url: the page to which the hosted page redirects the buyer
    :return: the intent and the page, which the caller must record in a later transaction
    :raises NotFoundError: the target does not exist or belongs to another buyer
    :raises NotPayableError: the target does not await payment
    :raises ProviderUnavailableError: the gateway gave no usable response; the call may be repeated
    :raises InitializationInProgressError: another request has not finished in time
    """
    return _initialize_payment(
        database,
        gateway,
        get_intent=partial(
            lifecycle.get_or_create_intent,
            buyer_id=buyer_id,
            target=target,
            callback_url=callback_url,
            leases=True,
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
    """Get the open transfer account of a payment target, or have the gateway create an account.

    Among concurrent requests, only one calls the gateway and the others wait for the result.

    :param email: the e-mail address that the gateway stores for the buyer
    :param callback_url: the page to which a hosted page redirects the buyer, if the buyer opens a hosted page instead
    :return: the intent and the account, which the caller must record in a later transaction
    :raises NotFoundError: the target does not exist or belongs to another buyer
    :raises NotPayableError: the target does not await payment
    :raises ProviderUnavailableError: the gateway gave no usable response; the call may be repeated
    :raises InitializationInProgressError: another request has not finished in time
    """
    get_live_intent = partial(
        lifecycle.get_or_create_intent,
        buyer_id=buyer_id,
        target=target,
        callback_url=callback_url,
        leases=True,
    )

    def get_intent(session: Session, *, now: datetime) -> Intent:
        intent = get_live_intent(session, now=now)
        account = _find_transfer_account(session, intent)
        if account is None or account.expires_at > now:
            return intent
        # The gateway accepts no transfers to an expired account. A new reference gets a new account.
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
    """Record the transfer account that the gateway created.

    :raises NotPayableError: an order was paid, cancelled or expired during the call to the gateway
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
    """Get the initialized page or account of an intent, or initialize the payment at the gateway.

    :param get_intent: gets or creates the live intent
    :param find_initialized: finds the page or account of an intent
    :param initialize: calls the gateway to open a page or create an account
    :return: the intent and the page or account, which the caller must record in a later transaction
    :raises ProviderUnavailableError: the gateway gave no usable response; the call may be repeated
    :raises InitializationInProgressError: another request has not finished in time
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
            # The gateway's response was lost, or the reference was initialized by the other payment method. A new
            # reference replaces the old one. A late charge for the old reference is still matched to the order.
            database.in_transaction(lifecycle.abandon_intent, intent_id=intent.id, now=clock())
    raise ProviderUnavailableError(texts.PAYMENT_REFUSED_BY_GATEWAY)


def _is_reference_known(database: Database, gateway: PaymentGateway, intent: Intent) -> bool:
    """Return whether the gateway already knows the reference, in which case a new reference helps."""
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
    """Get an intent with its page or account, or acquire the lease on the initialization.

    :raises InitializationInProgressError: another request holds the lease for too long
    """

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
    raise InitializationInProgressError(texts.INITIALIZATION_IN_PROGRESS, retry_after_seconds=5)


def _charge_metadata(intent: Intent) -> dict[str, Any]:
    """Build the metadata that the gateway returns with a charge of the intent."""
    return {
        "userId": str(intent.buyer_id),
        "orderId": str(intent.order_ids[0]),
        "checkoutId": str(intent.checkout_id) if intent.checkout_id else None,
        "settlement": "platform_escrow",
    }
