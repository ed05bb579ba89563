"""Routes of a person's tickets. Staff use the routes of messages too."""

from collections import defaultdict
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from blueprints.http import (
    AUTHENTICATED_ANY_STATUS,
    Context,
    ContractBlueprint,
    FinalPhase,
    ProcessGroup,
    SharedLimit,
)
from blueprints.http.fields import CursorQuery
from blueprints.support.schemas import (
    AttachmentUpload,
    OpenTicket,
    RateTicket,
    ReplyToTicket,
    StartAttachment,
    Ticket,
    TicketMessage,
    TicketMessagesQuery,
)
from marketplace.kernel.errors import LimitReachedError
from marketplace.kernel.paging import Page
from marketplace.kernel.states import IllegalTransitionError
from marketplace.media.documents import AnnouncedFile, SignedUpload
from marketplace.support import attachments, queries, tickets
from marketplace.support.models import SupportTicket

area = ContractBlueprint("support", "/api/support", "Your tickets to support")


@area.post("", auth=AUTHENTICATED_ANY_STATUS, limit="10/hour", body=OpenTicket, reply=Ticket, status=201)
def open_ticket(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Open a ticket. Staff answer by the severity, which follows from the topic and the order."""
    ticket = tickets.open_ticket(
        ctx.session,
        creator_id=ctx.user.id,
        subject=body["subject"],
        message=body["message"],
        category=body["category"],
        order_id=body.get("order_id"),
        now=ctx.now,
    )
    return _view(ctx, ticket)


@area.get(
    "",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    query=CursorQuery,
    reply=Ticket(many=True),
)
def list_tickets(ctx: Context, query: dict[str, Any]) -> Page:
    """List your tickets, the newest first."""
    listed = queries.list_own_tickets(ctx.session, creator_id=ctx.user.id, page=ctx.page)
    return Page([_view(ctx, ticket) for ticket in listed.items], listed.limit, listed.next_position)


@area.get("/<uuid:ticket_id>", auth=AUTHENTICATED_ANY_STATUS, limit=SharedLimit.CALLER_TIER, reply=Ticket)
def get_ticket(ctx: Context, ticket_id: UUID) -> dict[str, Any]:
    """Get a ticket. Staff can read all tickets."""
    ticket, _ = tickets.find_ticket(ctx.session, ticket_id=ticket_id, caller=ctx.user)
    return _view(ctx, ticket)


@area.get(
    "/<uuid:ticket_id>/messages",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    group=ProcessGroup.WAITING,
    query=TicketMessagesQuery,
    reply=TicketMessage(many=True),
)
def list_ticket_messages(ctx: Context, ticket_id: UUID, query: dict[str, Any]) -> Page:
    """List the messages of your ticket from the oldest. Staff can read all tickets, with internal notes."""
    listed, files = queries.list_messages(ctx.session, ticket_id=ticket_id, caller=ctx.user, page=ctx.page)
    return Page(_message_views(ctx, listed.items, files), listed.limit, listed.next_position)


@area.post(
    "/<uuid:ticket_id>/messages",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="30/minute",
    group=ProcessGroup.WAITING,
    body=ReplyToTicket,
    reply=TicketMessage,
    status=201,
    phased=True,
    raises=(tickets.TicketClosedError, IllegalTransitionError),
)
def reply_to_ticket(ctx: Context, ticket_id: UUID, body: dict[str, Any]) -> FinalPhase:
    """Write to support, or answer as staff. A reply within 7 days reopens a resolved ticket.

    Attach a file: announce it with `POST /api/support/attachments`, upload it, and send its `attachmentUrl` here. Size,
    hash and content are checked before the message is stored.
    """
    with ctx.services.database.reading() as session:
        tickets.find_ticket(session, ticket_id=ticket_id, caller=ctx.user)
    document_id = None
    if "attachment_url" in body:
        document_id = attachments.check_upload(
            ctx.services.database,
            ctx.services.storage,
            bucket=ctx.services.settings.s3_private_bucket,
            owner_id=ctx.user.id,
            attachment_url=body["attachment_url"],
            now=ctx.now,
        )

    def append(session: Session) -> dict[str, Any]:
        if document_id is not None:
            attachments.claim_upload(session, document_id=document_id, now=ctx.now)
        appended = tickets.reply(
            session,
            ticket_id=ticket_id,
            caller=ctx.user,
            message=tickets.NewMessage(
                body.get("message"), document_id, body.get("attachment_name", "attachment")
            ),
            now=ctx.now,
        )
        message, files = queries.fetch_message(session, message_id=appended.id)
        [view] = _message_views(ctx, [message], files)
        return view

    return FinalPhase(append)


@area.post(
    "/attachments",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="30/minute",
    group=ProcessGroup.WAITING,
    body=StartAttachment,
    reply=AttachmentUpload,
    status=201,
    raises=(LimitReachedError,),
)
def start_attachment(ctx: Context, body: dict[str, Any]) -> SignedUpload:
    """Announce a file for a message, and get a link for the upload. An unused upload is deleted after a day."""
    return attachments.start_upload(
        ctx.session,
        ctx.services.storage,
        bucket=ctx.services.settings.s3_private_bucket,
        owner_id=ctx.user.id,
        announced=AnnouncedFile(body["content_type"], body["byte_count"], body["sha256"]),
        now=ctx.now,
    )


@area.put(
    "/<uuid:ticket_id>/rate",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="10/minute",
    body=RateTicket,
    reply=Ticket,
    raises=(tickets.TicketNotResolvedError,),
)
def rate_ticket(ctx: Context, ticket_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Rate the answer to your resolved ticket. A later rating replaces an earlier one."""
    ticket = tickets.rate(
        ctx.session,
        ticket_id=ticket_id,
        creator_id=ctx.user.id,
        rating=body["rating"],
        comment=body.get("comment"),
        now=ctx.now,
    )
    return _view(ctx, ticket)


def _view(ctx: Context, ticket: SupportTicket) -> dict[str, Any]:
    columns = {column.key: getattr(ticket, column.key) for column in ticket.__table__.columns}
    return columns | {"can_reply": tickets.takes_messages(ticket, now=ctx.now)}


def _message_views(
    ctx: Context, messages: list[queries.TicketMessageRow], files: list[queries.AttachmentRow]
) -> list[dict[str, Any]]:
    storage, bucket = ctx.services.storage, ctx.services.settings.s3_private_bucket
    by_message: defaultdict[UUID, list[dict[str, Any]]] = defaultdict(list)
    for file in files:
        link = storage.signed_link(
            bucket=bucket, key=file.key, seconds=attachments.LINK_SECONDS, download_name=file.name
        )
        by_message[file.message_id].append(vars(file) | {"url": link})
    return [vars(message) | {"attachments": by_message[message.id]} for message in messages]
