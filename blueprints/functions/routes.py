"""Functions for other services: provision a user, deliver a notification, receive an e-mail."""

from typing import Any

from blueprints.functions.email_schemas import InboundMail, MailReceipt
from blueprints.functions.notification_schemas import DeliveredNotification, DeliverNotification
from blueprints.functions.schemas import CreatedUser, CreateUser
from blueprints.http import FUNCTION_CALLER, Context, ContractBlueprint, SharedLimit
from marketplace.kernel.errors import AccountErasedError, NotFoundError
from marketplace.notifications import requested
from marketplace.referrals.provision import EmailDomainBarredError, NewUser, provision_user
from marketplace.support.email_replies import InboundEmail, record_email

area = ContractBlueprint(
    "server-functions", "/functions/v1", "Functions for the identity provider and the database"
)


@area.post(
    "/create-user",
    auth=FUNCTION_CALLER,
    limit=SharedLimit.UNLIMITED,
    body=CreateUser,
    reply=CreatedUser,
    enveloped=False,
    raises=(AccountErasedError, EmailDomainBarredError),
)
def create_user(ctx: Context, body: dict[str, NewUser | None]) -> dict[str, Any]:
    """Create the profile of a new account, and evaluate the referral code. Repeated calls change nothing.

    The status 200 lets the identity provider create the account. A refusal has the member `error` with `http_code` and
    `message`, as the provider's hooks expect.
    """
    user = body["user"]
    if user is None:
        return {"ignored": True}
    try:
        provisioned = provision_user(
            ctx.session,
            user=user,
            barred_email_domains=ctx.services.settings.barred_email_domains,
            now=ctx.now,
        )
    except (AccountErasedError, EmailDomainBarredError) as error:
        error.extensions["error"] = {"http_code": error.status, "message": error.detail}
        raise
    referral = provisioned.referral
    return {
        "ignored": False,
        "user_id": user.id,
        "created": provisioned.created,
        "referral_status": referral.status if referral else None,
        "referral_rejection": referral.rejection if referral else None,
    }


@area.post(
    "/deliver-notification",
    auth=FUNCTION_CALLER,
    limit=SharedLimit.UNLIMITED,
    body=DeliverNotification,
    reply=DeliveredNotification,
    enveloped=False,
    raises=(NotFoundError,),
)
def deliver_notification(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Deliver a notification by push, template message, SMS and e-mail. Repeated calls deliver once.

    The body is a trigger's row change of the table `notifications`, or a new notification with an id of your own.
    """
    request = body["request"]
    if request is None:
        return {"ignored": True}
    if isinstance(request, requested.RequestedNotification):
        accepted = requested.deliver_new(ctx.session, requested=request, now=ctx.now)
    else:
        accepted = requested.deliver_existing(ctx.session, notification_id=request, now=ctx.now)
    return {"ignored": False, "accepted": accepted}


@area.post(
    "/inbound-email",
    auth=FUNCTION_CALLER,
    limit=SharedLimit.UNLIMITED,
    body=InboundMail,
    reply=MailReceipt,
    enveloped=False,
)
def receive_email(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Append a reply by e-mail to its ticket. Repeated calls change nothing.

    Mails to unknown addresses and of other senders are ignored with the status 200, so that mail services do not repeat
    them.
    """
    outcome, ticket_id = record_email(
        ctx.session,
        email=InboundEmail(
            sender=body["from_"],
            recipient=body["to"],
            subject=body["subject"],
            text=body["text"],
            message_id=body["message_id"],
        ),
        key=ctx.services.settings.cursor_key,
        now=ctx.now,
    )
    return {"outcome": outcome, "ticket_id": ticket_id}
