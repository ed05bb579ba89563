"""Payments: intents, the gateway's page, and verification."""

from functools import partial
from typing import Any
from urllib.parse import urlsplit

from blueprints.http.contract import AUTHENTICATED, Idempotency
from blueprints.http.endpoint import Area, Context, LastPhase
from blueprints.payments.schemas import (
    Initialize,
    IntentView,
    MakeIntent,
    PageView,
    PaymentView,
    Verify,
)
from marketplace.kernel.errors import ValidationError
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.hosted_page import open_page
from marketplace.payments.intents.lifecycle import Target
from marketplace.providers.gateway.payments import customer_email

area = Area("payments", "/api/payments", "Payments through the gateway")


@area.post(
    "/intent", auth=AUTHENTICATED, limit="15/minute", body=MakeIntent, reply=IntentView, status=201,
    idempotent=Idempotency.REQUIRED,
)  # fmt: skip
def make_intent(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Make the payment of an order or a checkout, without asking the gateway."""
    intent = lifecycle.ensure_intent(
        ctx.session,
        buyer_id=ctx.user.id,
        target=_target(body),
        callback_url=callback_url_of(ctx, body),
        now=ctx.now,
    )
    return {
        "reference": intent.reference,
        "status": intent.status,
        "amountMinor": intent.amount_minor,
        "currency": "NGN",
        "orderIds": list(intent.order_ids),
    }


@area.post(
    "/initialize", auth=AUTHENTICATED, limit="15/minute", body=Initialize, reply=PageView,
    idempotent=Idempotency.REQUIRED, phased=True,
)  # fmt: skip
def initialize(ctx: Context, body: dict[str, Any]) -> LastPhase:
    """Open the gateway's payment page, or give the one that is open."""
    intent, page = open_page(
        ctx.services.database,
        ctx.services.gateway,
        buyer_id=ctx.user.id,
        email=customer_email(ctx.user.email, ctx.user.id),
        target=_target(body),
        callback_url=callback_url_of(ctx, body),
        clock=ctx.services.clock,
    )
    return LastPhase(partial(lifecycle.record_page, intent=intent, page=page, now=ctx.now))


@area.post("/verify", auth=AUTHENTICATED, limit="30/minute", body=Verify, reply=PaymentView, phased=True)
def verify(ctx: Context, body: dict[str, Any]) -> LastPhase:
    """Ask the gateway what became of a payment, and apply it."""
    with ctx.transaction() as session:
        reference = lifecycle.own_reference(session, buyer_id=ctx.user.id, reference=body["reference"])
    charge = ctx.services.gateway.charge(reference)
    bearer = ctx.services.settings.gateway_fee_bearer
    return LastPhase(
        partial(lifecycle.settle, reference=reference, charge=charge, fee_bearer=bearer, now=ctx.now)
    )


def _target(body: dict[str, Any]) -> Target:
    return Target(
        order_id=body.get("order_id"), checkout_id=body.get("checkout_id"), reference=body.get("reference")
    )


def callback_url_of(ctx: Context, body: dict[str, Any]) -> str | None:
    """Give the address, if it is on an origin of ours: the gateway sends buyers to any.

    :raises ValidationError: it is not
    """
    url: str | None = body.get("callback_url")
    if url is None:
        return None
    settings = ctx.services.settings
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    own = "{0.scheme}://{0.netloc}".format(urlsplit(settings.public_base_url))
    if origin not in (own, *settings.cors_origins):
        raise ValidationError.of("callbackUrl", "Must be on the service's own address or an allowed origin.")
    return url
