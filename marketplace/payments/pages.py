"""Opening a payment page: reserve and commit, ask the gateway, then record, with no transaction open meanwhile."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.kernel.clock import Clock
from marketplace.kernel.errors import ConflictError, ProviderUnavailableError
from marketplace.payments import operations
from marketplace.payments.operations import Intent, Target
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway import PaymentGateway, PaymentPage

_WAIT_SECONDS = 12.0
_POLL_SECONDS = 0.1
# The first reference, and one more if the gateway knows the first already: its answer was lost once.
_MAX_REFERENCES = 2


class OpeningElsewhereError(ConflictError):
    """Another request is opening the page, for longer than this one can wait."""


def open_page(
    database: Database,
    gateway: PaymentGateway,
    *,
    buyer_id: UUID,
    email: str,
    target: Target,
    callback_url: str | None,
    clock: Clock,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Intent, PaymentPage]:
    """This function will get the page on which somebody pays: the one that is open, or a new one.

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
    :raises OpeningElsewhereError: another request is still at it
    """
    for _ in range(_MAX_REFERENCES):
        intent = _reserve(
            database, buyer_id=buyer_id, target=target, callback_url=callback_url, clock=clock, sleep=sleep
        )
        if intent.page is not None:
            return intent, intent.page
        try:
            return intent, gateway.initialize(
                reference=intent.reference,
                amount_minor=intent.amount_minor,
                email=email,
                callback_url=intent.callback_url,
                metadata=_metadata(intent),
            )
        except ProviderUnavailableError:
            database.in_transaction(operations.release_opening, intent_id=intent.id)
            raise
        except ProviderRefusedError:
            if not _knows(database, gateway, intent):
                database.in_transaction(operations.release_opening, intent_id=intent.id)
                break
            # An answer was lost. Nobody has that page, so a fresh reference takes its place; should money come
            # for the old one after all, it finds its order all the same.
            database.in_transaction(operations.abandon, intent_id=intent.id, now=clock())
    raise ProviderUnavailableError("The payment gateway refused to open a payment page.")


def _knows(database: Database, gateway: PaymentGateway, intent: Intent) -> bool:
    """Ask whether the gateway refused because it knows the reference, or for a reason that a new one won't mend."""
    try:
        return gateway.charge(intent.reference) is not None
    except ProviderUnavailableError:
        database.in_transaction(operations.release_opening, intent_id=intent.id)
        raise


def _reserve(
    database: Database,
    *,
    buyer_id: UUID,
    target: Target,
    callback_url: str | None,
    clock: Clock,
    sleep: Callable[[float], None],
) -> Intent:
    """Give an intent whose page is open, or whose opening is ours."""

    def attempt(session: Session, now: datetime) -> tuple[Intent, bool]:
        intent = operations.ensure_intent(
            session, buyer_id=buyer_id, target=target, callback_url=callback_url, now=now
        )
        if intent.page is None:
            return intent, operations.claim_opening(session, intent=intent, now=now)
        operations.extend(session, intent=intent, now=now)
        return intent, True

    for _ in range(int(_WAIT_SECONDS / _POLL_SECONDS)):
        intent, ours = database.in_transaction(attempt, clock())
        if ours:
            return intent
        sleep(_POLL_SECONDS)
    raise OpeningElsewhereError(
        "Another request is opening the payment page. Try again.", retry_after_seconds=5
    )


def _metadata(intent: Intent) -> dict[str, Any]:
    return {
        "userId": str(intent.buyer_id),
        "orderId": str(intent.order_ids[0]),
        "checkoutId": str(intent.checkout_id) if intent.checkout_id else None,
        "settlement": "platform_escrow",
    }
