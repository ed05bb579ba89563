"""Two tickets of the buyer, of which one waits for an answer."""

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from marketplace.kernel import demo_ids
from marketplace.kernel.demo_ids import SeededKind, seeded_id
from marketplace.support import severity, states
from marketplace.support.models import SupportTicket, SupportTicketMessage

_TICKETS = (
    (
        demo_ids.TICKET,
        severity.DELIVERY,
        "My order has not arrived",
        "The vendor shipped it on Monday. The hub does not have it.",
    ),
    (
        demo_ids.SECOND_TICKET,
        severity.ACCOUNT,
        "How do I change my campus?",
        "I moved to the south campus this semester.",
    ),
)


def load_support(session: Session, *, now: datetime) -> int:
    """Add the tickets of the demo.

    :return: number of new tickets
    """
    if session.get(SupportTicket, demo_ids.TICKET) is not None:
        return 0
    opened_at = now - timedelta(hours=1)
    for number, (ticket_id, category, subject, body) in enumerate(_TICKETS, 1):
        level = severity.classify(category=category, wording=body, in_escrow=False)
        due_at = severity.response_due_at(level, since=opened_at, closed_days=frozenset())
        session.add(
            SupportTicket(
                id=ticket_id,
                creator_id=demo_ids.BUYER,
                subject=subject,
                category=category,
                severity=level,
                status=states.TICKET.initial,
                message_count=1,
                due_at=due_at,
                response_due_at=due_at,
                resolution_due_at=severity.resolution_due_at(level, since=opened_at),
                created_at=opened_at,
                updated_at=opened_at,
            )
        )
        session.flush()
        session.add(
            SupportTicketMessage(
                id=seeded_id(SeededKind.TICKET_MESSAGE, number),
                ticket_id=ticket_id,
                number=1,
                author="user",
                author_id=demo_ids.BUYER,
                is_internal=False,
                body=body,
                created_at=opened_at,
            )
        )
        session.flush()
    return len(_TICKETS)
