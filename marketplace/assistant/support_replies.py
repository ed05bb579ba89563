"""Suggested replies of support, from the ticket, its order and the policies. Staff edit and send them."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.assistant import prompts, texts
from marketplace.assistant.completions import ShortText, complete
from marketplace.assistant.opt_outs import is_opted_out
from marketplace.assistant.policies import policies_for
from marketplace.assistant.privacy import protect
from marketplace.identity.queries import Caller
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ForbiddenError
from marketplace.kernel.money import format_naira
from marketplace.orders.models import Order
from marketplace.providers.language_model import LanguageModel
from marketplace.support.models import SupportTicketMessage
from marketplace.support.queries import fetch_staff_ticket
from marketplace.support.tickets import find_ticket

MAX_MESSAGES = 20
_MAX_TOKENS = 400


class OwnerOptedOutError(ForbiddenError):
    """The owner of the ticket does not allow the assistant to process the owner's data."""

    reason = "owner-opted-out"


@dataclass(frozen=True)
class Source:
    """A source of a suggested reply: a ``ticket``, an ``order`` or a ``policy``."""

    kind: str
    id: str
    title: str


@dataclass(frozen=True)
class ReplyContext:
    """The data for a suggested reply, without contact details, and its sources."""

    data: dict[str, Any]
    sources: list[Source]


def collect_context(session: Session, *, ticket_id: UUID, caller: Caller) -> ReplyContext:
    """Collect the last messages of a ticket, its order and the policies of its category. Internal notes are left out.

    :raises NotFoundError: the ticket does not exist
    :raises OwnerOptedOutError: the ticket's owner has opted out of the assistant
    """
    owner_id = find_ticket(session, ticket_id=ticket_id, caller=caller)[0].creator_id
    if owner_id is not None and is_opted_out(session, user_id=owner_id):
        raise OwnerOptedOutError(texts.OWNER_OPTED_OUT)
    ticket = fetch_staff_ticket(session, ticket_id=ticket_id)
    messages = session.execute(
        select(SupportTicketMessage.author, SupportTicketMessage.body)
        .where(SupportTicketMessage.ticket_id == ticket_id, ~SupportTicketMessage.is_internal)
        .order_by(SupportTicketMessage.number.desc())
        .limit(MAX_MESSAGES)
    ).all()
    order = session.get(Order, ticket.order_id) if ticket.order_id else None
    policies = policies_for(ticket.category)
    data = {
        "ticket": {
            "number": ticket.number,
            "subject": protect(ticket.subject),
            "category": ticket.category,
            "messages": [
                {"from": author, "text": protect(body or "")} for author, body in reversed(messages)
            ],
        },
        "order": _describe_order(order) if order is not None else None,
        "policies": [{"title": policy.title, "text": policy.text} for policy in policies],
    }
    sources = [Source("ticket", str(ticket.id), ticket.number)]
    if order is not None:
        sources.append(Source("order", str(order.id), order.number))
    return ReplyContext(data, sources + [Source("policy", policy.id, policy.title) for policy in policies])


def suggest_reply(model: LanguageModel, context: ReplyContext) -> ShortText:
    """Write a suggested reply. Errors are those of ``complete``."""
    written = complete(
        model,
        [
            {"role": "system", "content": prompts.read_prompt(prompts.SUPPORT_REPLY)},
            {"role": "user", "content": json.dumps(context.data, ensure_ascii=False)},
        ],
        max_tokens=_MAX_TOKENS,
    )
    return ShortText(protect(written.text), written.tokens)


def _describe_order(order: Order) -> dict[str, Any]:
    times = {
        "placedAt": order.created_at,
        "paidAt": order.paid_at,
        "shippedAt": order.shipped_at,
        "deliveredAt": order.delivered_at,
    }
    return {
        "number": order.number,
        "status": order.status,
        "total": format_naira(order.total_minor),
        **{name: iso(at) for name, at in times.items() if at is not None},
    }
