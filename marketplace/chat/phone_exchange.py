"""Exchange of phone numbers between buyer and vendor after an order is shipped.

Each number stays masked until both parties agree. Either party can end the exchange.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from marketplace.chat import texts
from marketplace.chat.models import PhoneExchange
from marketplace.chat.participants import BUYER, Party, display_name, ensure_not_blocked, find_party
from marketplace.identity.models import Profile
from marketplace.kernel.errors import ConflictError
from marketplace.notifications.operations import notify
from marketplace.orders.models import Order

NONE, REQUESTED, SHARED = "none", "requested", "shared"
STATUSES = (NONE, REQUESTED, SHARED)
_VISIBLE_DIGITS = 2


class NoShippedOrderError(ConflictError):
    """No order of the conversation's parties is shipped."""

    reason = "no-shipped-order"


class PhoneNotVerifiedError(ConflictError):
    """The party has no verified phone number."""

    reason = "phone-not-verified"


@dataclass(frozen=True)
class PhoneExchangeView:
    """The state of an exchange for one party.

    :ivar available: whether an order is shipped, so that the parties can agree
    :ivar your_phone: the party's own number in E.164; none without a verified number
    :ivar their_phone: masked until both agreed; none without a verified number
    """

    status: str
    available: bool
    you_agreed: bool
    they_agreed: bool
    your_phone: str | None
    their_phone: str | None


def fetch_exchange(session: Session, *, conversation_id: UUID, user_id: UUID) -> PhoneExchangeView:
    """Fetch the exchange of a conversation.

    :raises NotFoundError: the conversation does not exist, or the user is no party
    """
    return _view(session, find_party(session, conversation_id=conversation_id, user_id=user_id))


def agree(session: Session, *, conversation_id: UUID, user_id: UUID, now: datetime) -> PhoneExchangeView:
    """Agree to the exchange. A repeated call keeps the first time.

    :raises NotFoundError: the conversation does not exist, or the user is no party
    :raises ConversationBlockedError: one of the parties blocked the other
    :raises NoShippedOrderError: no order of the parties is shipped
    :raises PhoneNotVerifiedError: the user has no verified phone number
    """
    party = find_party(session, conversation_id=conversation_id, user_id=user_id, lock=True)
    ensure_not_blocked(session, user_id=party.user_id, other_id=party.other.user_id)
    if not _has_shipped_order(session, party):
        raise NoShippedOrderError(texts.NO_SHIPPED_ORDER)
    if _verified_phone(session, user_id) is None:
        raise PhoneNotVerifiedError(texts.PHONE_NOT_VERIFIED)
    exchange = session.get(PhoneExchange, conversation_id, populate_existing=True)
    if exchange is None:
        exchange = PhoneExchange(conversation_id=conversation_id)
        session.add(exchange)
    if _agreed_at(exchange, party) is None:
        if party.side == BUYER:
            exchange.buyer_agreed_at = now
        else:
            exchange.seller_agreed_at = now
        session.flush()
        _notify_other_party(session, party, exchange, now)
    return _view(session, party)


def end(session: Session, *, conversation_id: UUID, user_id: UUID) -> PhoneExchangeView:
    """End the exchange for both parties. Both numbers are masked again.

    :raises NotFoundError: the conversation does not exist, or the user is no party
    """
    party = find_party(session, conversation_id=conversation_id, user_id=user_id, lock=True)
    exchange = session.get(PhoneExchange, conversation_id, populate_existing=True)
    if exchange is not None:
        session.delete(exchange)
        session.flush()
    return _view(session, party)


def _view(session: Session, party: Party) -> PhoneExchangeView:
    exchange = session.get(PhoneExchange, party.conversation.id, populate_existing=True)
    agreed = [
        exchange is not None and _agreed_at(exchange, each) is not None for each in (party, party.other)
    ]
    is_shared = all(agreed)
    theirs = _verified_phone(session, party.other.user_id)
    return PhoneExchangeView(
        status=SHARED if is_shared else REQUESTED if any(agreed) else NONE,
        available=_has_shipped_order(session, party),
        you_agreed=agreed[0],
        they_agreed=agreed[1],
        your_phone=_verified_phone(session, party.user_id),
        their_phone=theirs if is_shared or theirs is None else _mask(theirs),
    )


def _agreed_at(exchange: PhoneExchange, party: Party) -> datetime | None:
    return exchange.buyer_agreed_at if party.side == BUYER else exchange.seller_agreed_at


def _verified_phone(session: Session, user_id: UUID) -> str | None:
    return session.scalar(
        select(Profile.phone).where(Profile.id == user_id, Profile.phone_verified_at.is_not(None))
    )


def _mask(phone: str) -> str:
    """Mask a number in E.164 but for the first four characters and the last two digits."""
    return f"{phone[:4]}{'*' * (len(phone) - 4 - _VISIBLE_DIGITS)}{phone[-_VISIBLE_DIGITS:]}"


def _has_shipped_order(session: Session, party: Party) -> bool:
    return bool(
        session.scalar(
            select(
                exists().where(
                    Order.buyer_id == party.conversation.buyer_id,
                    Order.vendor_id == party.conversation.vendor_id,
                    Order.shipped_at.is_not(None),
                )
            )
        )
    )


def _notify_other_party(session: Session, party: Party, exchange: PhoneExchange, now: datetime) -> None:
    is_shared = _agreed_at(exchange, party.other) is not None
    title = texts.PHONES_SHARED_TITLE if is_shared else texts.PHONE_REQUESTED_TITLE
    notify(
        session,
        user_id=party.other.user_id,
        type="phone_exchange_agreed" if is_shared else "phone_exchange_requested",
        title=title.format(sender=display_name(session, party)),
        body=texts.PHONES_SHARED_BODY if is_shared else texts.PHONE_REQUESTED_BODY,
        link=f"/conversations/{party.conversation.id}",
        cause=f"conversation:{party.conversation.id}:phones:{party.side}:{now.date().isoformat()}",
        now=now,
    )
