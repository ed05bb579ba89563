"""Payments: intents, the gateway's page, and verification."""

from functools import partial
from typing import Any
from urllib.parse import urlsplit

from blueprints.http.contract import AUTHENTICATED, Idempotency
from blueprints.http.endpoint import Context, ContractBlueprint, FinalPhase
from blueprints.payments.schemas import (
    CreatePaymentIntent,
    HostedPageView,
    InitializePayment,
    PaymentIntentView,
    PaymentView,
    VerifyPayment,
)
from marketplace.kernel.errors import ValidationError
from marketplace.kernel.states import IllegalTransitionError
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.lifecycle import PaymentTarget
from marketplace.payments.intents.payment_methods import InitializationInProgressError, open_hosted_page
from marketplace.providers.gateway.payments import customer_email

area = ContractBlueprint("payments", "/api/payments", "Payments through the gateway")


@area.post(
    "/intent", auth=AUTHENTICATED, limit="15/minute", body=CreatePaymentIntent, reply=PaymentIntentView, status=201,
    idempotent=Idempotency.REQUIRED,
    raises=(IllegalTransitionError, lifecycle.NotPayableError),
)  # fmt: skip
def make_intent(ctx: Context, body: dict[str, Any]) -> lifecycle.Intent:
    """Make the payment of an order or a checkout, without asking the gateway."""
    return lifecycle.get_or_create_intent(
        ctx.session,
        buyer_id=ctx.user.id,
        target=parse_target(body),
        callback_url=parse_callback_url(ctx, body),
        now=ctx.now,
    )


@area.post(
    "/initialize", auth=AUTHENTICATED, limit="15/minute", body=InitializePayment, reply=HostedPageView,
    idempotent=Idempotency.REQUIRED, phased=True,
    raises=(IllegalTransitionError, InitializationInProgressError, lifecycle.NotPayableError),
)  # fmt: skip
def initialize(ctx: Context, body: dict[str, Any]) -> FinalPhase:
    """Open the gateway's payment page, or give the one that is open."""
    intent, page = open_hosted_page(
        ctx.services.database,
        ctx.services.gateway,
        buyer_id=ctx.user.id,
        email=customer_email(ctx.user.email, ctx.user.id),
        target=parse_target(body),
        callback_url=parse_callback_url(ctx, body),
        clock=ctx.services.clock,
    )
    return FinalPhase(partial(lifecycle.record_hosted_page, intent=intent, page=page, now=ctx.now))


@area.post(
    "/verify",
    auth=AUTHENTICATED,
    limit="30/minute",
    body=VerifyPayment,
    reply=PaymentView,
    phased=True,
    raises=(IllegalTransitionError,),
)
def verify(ctx: Context, body: dict[str, Any]) -> FinalPhase:
    """Ask the gateway what became of a payment, and apply it."""
    with ctx.transaction() as session:
        lifecycle.ensure_reference_belongs_to_buyer(
            session, buyer_id=ctx.user.id, reference=body["reference"]
        )
    return FinalPhase(
        partial(
            lifecycle.apply_reported_charge,
            reference=body["reference"],
            charge=ctx.services.gateway.fetch_charge(body["reference"]),
            fee_bearer=ctx.services.settings.gateway_fee_bearer,
            now=ctx.now,
        )
    )


def parse_target(body: dict[str, Any]) -> PaymentTarget:
    """Give the order, checkout or reference to pay for."""
    return PaymentTarget(
        order_id=body.get("order_id"), checkout_id=body.get("checkout_id"), reference=body.get("reference")
    )


def parse_callback_url(ctx: Context, body: dict[str, Any]) -> str | None:
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
