"""Replies to support by e-mail: signed addresses, senders, repeated mails, quotes, and closed tickets."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from sqlalchemy import select

from marketplace.audit.operations import Act
from marketplace.infra.db import Database
from marketplace.services import Services
from marketplace.support import email_replies, staff, tickets
from marketplace.support.email_replies import strip_quotes
from marketplace.support.models import SupportTicket, SupportTicketMessage
from tests.support.function_calls import KEYED, encode
from tests.support.market import Market
from tests.support.probes import assert_problem
from tests.support.purchases import NOW

PATH = "/functions/v1/inbound-email"
DOMAIN = "replies.campus.example"


class Mailbox:
    """A person with a ticket, who answers by e-mail."""

    def __init__(self, app: Flask, services: Services, market: Market) -> None:
        self.client, self.market = app.test_client(), market
        self.database: Database = market.database
        self.key = services.settings.cursor_key
        self.email = f"{uuid4().hex[:12]}@students.example"
        self.user_id = market.person(email=self.email)
        self.officer_id = market.staff("support")
        self.ticket_id = self.open()

    def open(self) -> UUID:
        ticket = self.database.in_transaction(
            tickets.open_ticket,
            creator_id=self.user_id,
            subject="A question",
            message="Where is my lamp?",
            category="delivery",
            order_id=None,
            now=NOW,
        )
        return ticket.id

    @property
    def address(self) -> str:
        return email_replies.make_reply_address(self.ticket_id, key=self.key, domain=DOMAIN)

    def send(self, headers: Any = KEYED, **fields: Any) -> Any:
        body = {
            "from": f"Amara <{self.email.upper()}>",
            "to": self.address,
            "subject": "Re: Support answered you",
            "text": "It arrived.\n\nOn Mon, Campus Marketplace wrote:\n> Where?",
            "messageId": f"<{uuid4()}@mail.example>",
        } | fields
        return self.client.post(PATH, data=encode(body), content_type="application/json", headers=headers)

    def bodies(self, ticket_id: UUID | None = None) -> list[str | None]:
        with self.database.reading() as session:
            return list(
                session.scalars(
                    select(SupportTicketMessage.body)
                    .where(SupportTicketMessage.ticket_id == (ticket_id or self.ticket_id))
                    .order_by(SupportTicketMessage.number)
                )
            )

    def act(self) -> Act:
        return Act("support", NOW, self.officer_id)


@pytest.fixture
def mailbox(paying_app: Flask, paying_services: Services, market: Market) -> Mailbox:
    return Mailbox(paying_app, paying_services, market)


def test_reply_is_appended_without_the_quoted_mail(mailbox: Mailbox) -> None:
    answer = mailbox.send()
    assert answer.json == {"outcome": "accepted", "ticketId": str(mailbox.ticket_id)}
    assert mailbox.bodies() == ["Where is my lamp?", "It arrived."]


def test_repeated_mail_is_stored_once(mailbox: Mailbox) -> None:
    outcomes = [mailbox.send(messageId="<same@mail.example>" + mailbox.email).json["outcome"] for _ in (1, 2)]
    assert outcomes == ["accepted", "duplicate"]
    assert len(mailbox.bodies()) == 2


def test_mail_arriving_twice_at_once_is_stored_once(mailbox: Mailbox) -> None:
    message_id = f"<{uuid4()}@mail.example>"

    def send(_: int) -> Any:
        return mailbox.send(messageId=message_id).json["outcome"]

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(send, range(3))) == ["accepted", "duplicate", "duplicate"]
    assert len(mailbox.bodies()) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda mailbox: {"to": mailbox.address.replace("@", "0@")},
        lambda mailbox: {"to": mailbox.address.replace(mailbox.ticket_id.hex, uuid4().hex)},
        lambda _mailbox: {"to": "support@campus.example"},
        lambda _mailbox: {"from": "mallory@students.example"},
        lambda _mailbox: {"from": "no address"},
        lambda _mailbox: {"text": "> Where is my lamp?\n"},
    ],
    ids=["longer", "other ticket", "unsigned", "other sender", "no sender", "only quotes"],
)
def test_mail_without_proof_is_ignored(mailbox: Mailbox, change: Any) -> None:
    answer = mailbox.send(**change(mailbox))
    assert (answer.status_code, answer.json["outcome"]) == (200, "ignored")
    assert mailbox.bodies() == ["Where is my lamp?"]


def test_mail_to_a_merged_ticket_continues_the_remaining_ticket(mailbox: Mailbox) -> None:
    kept = mailbox.open()
    mailbox.database.in_transaction(staff.merge, ticket_id=mailbox.ticket_id, into_id=kept, act=mailbox.act())
    assert mailbox.send().json["ticketId"] == str(kept)
    assert mailbox.bodies(kept)[-1] == "It arrived."


def test_mail_to_a_closed_ticket_opens_a_new_ticket(mailbox: Mailbox) -> None:
    mailbox.database.in_transaction(staff.close, ticket_id=mailbox.ticket_id, act=mailbox.act())
    opened = UUID(mailbox.send().json["ticketId"])
    assert opened != mailbox.ticket_id
    with mailbox.database.reading() as session:
        ticket = session.get_one(SupportTicket, opened)
    assert (ticket.subject, ticket.creator_id, ticket.status) == (
        "Support answered you",
        mailbox.user_id,
        "open",
    )


def test_caller_without_the_key_is_refused(mailbox: Mailbox) -> None:
    assert_problem(mailbox.send(headers={}), 401, "AUTH_UNAUTHORIZED")
    assert mailbox.bodies() == ["Where is my lamp?"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Thanks\r\n\r\nOn 1 May 2026 at 10:00 Support <a@b.c> wrote:\r\n> x", "Thanks"),
        ("Yes\n> quoted\nNo", "Yes\nNo"),
        ("-----Original Message-----\nold", ""),
        ("I wrote: nothing", "I wrote: nothing"),
    ],
)
def test_quotes_are_removed(text: str, expected: str) -> None:
    assert strip_quotes(text) == expected


def test_only_links_to_tickets_have_an_address_for_replies(mailbox: Mailbox) -> None:
    link = f"/support/{mailbox.ticket_id}"
    made = email_replies.reply_address_of_link(link, key=mailbox.key, domain=DOMAIN)
    assert made == mailbox.address
    for other in ("/orders/1", None, f"/admin/support/{mailbox.ticket_id}/x"):
        assert email_replies.reply_address_of_link(other, key=mailbox.key, domain=DOMAIN) is None
    assert email_replies.reply_address_of_link(link, key=mailbox.key, domain="") is None
