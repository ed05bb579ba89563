"""Opening a payment page: reserve and commit, ask the gateway, then record, with no transaction open meanwhile."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.kernel.clock import Clock
from marketplace.kernel.errors import ConflictError, ProviderUnavailableError
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.lifecycle import Intent, PaymentTarget
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway.payments import PaymentGateway, PaymentPage

_WAIT_SECONDS = 12.0
_POLL_SECONDS = 0.1
# The first reference, and one more if the gateway knows the first already: its answer was lost once.
_MAX_REFERENCES = 2


Initialized = TypeVar("Initialized")


@dataclass(frozen=True)
class PaymentMethodFlow(Generic[Initialized]):
    """A way to pay: the live intent, what of it is open, and how the gateway is asked to open it."""

    get_intent: Callable[[Session, datetime], Intent]
    find_initialized: Callable[[Session, Intent], Initialized | None]
    initialize: Callable[[Intent], Initialized]


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
    return initialize_payment(
        database,
        gateway,
        PaymentMethodFlow(
            get_intent=lambda session, now: lifecycle.get_or_create_intent(
                session, buyer_id=buyer_id, target=target, callback_url=callback_url, now=now
            ),
            find_initialized=lambda _session, intent: intent.page,
            initialize=lambda intent: gateway.initialize_payment(
                reference=intent.reference,
                amount_minor=intent.amount_minor,
                email=email,
                callback_url=intent.callback_url,
                metadata=charge_metadata(intent),
            ),
        ),
        clock=clock,
        sleep=sleep,
    )


def initialize_payment(
    database: Database,
    gateway: PaymentGateway,
    flow: PaymentMethodFlow[Initialized],
    *,
    clock: Clock,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Intent, Initialized]:
    """Get what somebody pays by: what is open, or what one caller alone asks the gateway for.

    :param flow: what is asked for, and how
    :return: the intent and what was opened, which the caller records in its own last transaction
    :raises ProviderUnavailableError: the gateway gave no usable answer; the same call may be made again
    :raises InitializationInProgressError: another request is still at it
    """
    for _ in range(_MAX_REFERENCES):
        reserved = _acquire_lease(database, flow, clock=clock, sleep=sleep)
        intent, initialized = reserved
        if initialized is not None:
            return intent, initialized
        try:
            return intent, flow.initialize(intent)
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
    database: Database, flow: PaymentMethodFlow[Initialized], *, clock: Clock, sleep: Callable[[float], None]
) -> tuple[Intent, Initialized | None]:
    """Give an intent with what is open of it, or one whose opening is ours."""

    def attempt(session: Session, now: datetime) -> tuple[Intent, Initialized | None, bool]:
        intent = flow.get_intent(session, now)
        initialized = flow.find_initialized(session, intent)
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


def charge_metadata(intent: Intent) -> dict[str, Any]:
    """Give what comes back with the charge of an intent."""
    return {
        "userId": str(intent.buyer_id),
        "orderId": str(intent.order_ids[0]),
        "checkoutId": str(intent.checkout_id) if intent.checkout_id else None,
        "settlement": "platform_escrow",
    }
