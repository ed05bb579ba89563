"""Routes of payments: intents, the hosted page, verification, bank transfers and ledger statements."""

from functools import partial
from typing import Any
from urllib.parse import urlsplit

from flask import Response

from blueprints.http import (
    AUTHENTICATED,
    AUTHENTICATED_OR_DELETING,
    MAX_CSV_ROWS,
    Context,
    ContractBlueprint,
    FinalPhase,
    Idempotency,
    SharedLimit,
    csv_response,
    wants_csv,
)
from blueprints.http.reply_renderer import compile_renderer
from blueprints.payments.schemas import (
    BankView,
    CreatePaymentIntent,
    HostedPageView,
    InitializePayment,
    LedgerEntryQuery,
    LedgerEntryView,
    PaymentIntentView,
    PaymentView,
    ResolveBankAccount,
    ResolvedBankAccount,
    VerifyPayment,
    VirtualAccount,
)
from marketplace.kernel.errors import NotFoundError, ValidationError
from marketplace.kernel.paging import Page
from marketplace.kernel.states import IllegalTransitionError
from marketplace.ledger import queries
from marketplace.payments.intents import banks, lifecycle
from marketplace.payments.intents.lifecycle import PaymentTarget
from marketplace.payments.intents.payment_methods import (
    InitializationInProgressError,
    open_hosted_page,
    open_transfer_account,
    record_transfer_account,
)
from marketplace.providers.gateway.payloads import Bank
from marketplace.providers.gateway.payments import customer_email
from marketplace.vendors.queries import find_store_of_user

area = ContractBlueprint("payments", "/api/payments", "Payments through the gateway")
bank_area = ContractBlueprint("banks", "/api/payments", "Banks, bank accounts and payment by bank transfer")
statement_area = ContractBlueprint("transactions", "/api/transactions", "Statements of the ledger")

_CSV_COLUMNS = tuple(field.data_key or name for name, field in LedgerEntryView().fields.items())
_render_entry = compile_renderer(LedgerEntryView())


@area.post(
    "/intent", auth=AUTHENTICATED, limit="15/minute", body=CreatePaymentIntent, reply=PaymentIntentView, status=201,
    idempotent=Idempotency.REQUIRED,
    raises=(NotFoundError, IllegalTransitionError, lifecycle.NotPayableError),
)  # fmt: skip
def create_payment_intent(ctx: Context, body: dict[str, Any]) -> lifecycle.Intent:
    """Create or get the payment of an order or a checkout, without calling the gateway."""
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
    raises=(NotFoundError, IllegalTransitionError, InitializationInProgressError, lifecycle.NotPayableError),
)  # fmt: skip
def initialize_payment(ctx: Context, body: dict[str, Any]) -> FinalPhase:
    """Open the gateway's hosted payment page, or get the page that is already open."""
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
    raises=(NotFoundError, IllegalTransitionError),
)
def verify_payment(ctx: Context, body: dict[str, Any]) -> FinalPhase:
    """Fetch a payment's status from the gateway, and apply a settled charge."""
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
    """Parse the order, checkout or reference to pay for."""
    return PaymentTarget(
        order_id=body.get("order_id"), checkout_id=body.get("checkout_id"), reference=body.get("reference")
    )


def parse_callback_url(ctx: Context, body: dict[str, Any]) -> str | None:
    """Parse the callback URL, which must be on an allowed origin because the gateway redirects buyers to any URL.

    :raises ValidationError: the origin is not allowed
    """
    url: str | None = body.get("callback_url")
    if url is None:
        return None
    settings = ctx.services.settings
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    own = "{0.scheme}://{0.netloc}".format(urlsplit(settings.public_base_url))
    if origin != own and origin not in settings.allowed_origins:
        raise ValidationError.of(
            "callbackUrl", "Must be on the address of this service or on an allowed origin."
        )
    return url


@bank_area.get(
    "/banks",
    auth=AUTHENTICATED_OR_DELETING,
    limit=SharedLimit.CALLER_TIER,
    reply=BankView(many=True),
    phased=True,
)
def list_banks(ctx: Context) -> list[Bank]:
    """List the supported banks with codes, by name."""
    return banks.list_banks(ctx.services.cache, ctx.services.gateway)


@bank_area.post(
    "/bank/resolve", auth=AUTHENTICATED_OR_DELETING, limit="10/minute", body=ResolveBankAccount,
    reply=ResolvedBankAccount,
    phased=True,
    raises=(banks.UnknownBankAccountError,),
)  # fmt: skip
def resolve_bank_account(ctx: Context, body: dict[str, Any]) -> banks.ResolvedAccount:
    """Resolve a bank account to the holder's name."""
    return banks.resolve_account(ctx.services.cache, ctx.services.gateway, **body)


@bank_area.post(
    "/virtual-account", auth=AUTHENTICATED, limit="5/minute", body=CreatePaymentIntent, reply=VirtualAccount,
    phased=True,
    raises=(NotFoundError, IllegalTransitionError, InitializationInProgressError, lifecycle.NotPayableError),
)  # fmt: skip
def create_virtual_account(ctx: Context, body: dict[str, Any]) -> FinalPhase:
    """Create a bank account for the payment of an order or a checkout by transfer.

    Repeated requests get the same account until the account expires.
    """
    intent, account = open_transfer_account(
        ctx.services.database,
        ctx.services.gateway,
        buyer_id=ctx.user.id,
        email=customer_email(ctx.user.email, ctx.user.id),
        target=parse_target(body),
        callback_url=parse_callback_url(ctx, body),
        clock=ctx.services.clock,
    )
    return FinalPhase(partial(record_transfer_account, intent=intent, account=account, now=ctx.now))


@statement_area.get(
    "",
    auth=AUTHENTICATED_OR_DELETING,
    limit=SharedLimit.CALLER_TIER,
    query=LedgerEntryQuery,
    reply=LedgerEntryView(many=True),
    csv=True,
)
def list_transactions(ctx: Context, query: dict[str, Any]) -> Page | Response:
    """List the entries of the caller's ledger accounts, newest first, as JSON or as a CSV file."""
    store = find_store_of_user(ctx.session, user_id=ctx.user.id)
    owners = [ctx.user.id] if store is None else [ctx.user.id, store.id]
    entry_filter = queries.EntryFilter(
        starts=query["from_"],
        ends=query["to"],
        kind=query["kind"],
        direction=query["direction"],
        order_id=query["order_id"],
    )
    if not wants_csv(query["format"]):
        return queries.fetch_statement_page(
            ctx.session, owners=owners, entry_filter=entry_filter, page=ctx.page
        )
    entries = queries.iterate_statement_entries(
        ctx.session, owners=owners, entry_filter=entry_filter, limit=MAX_CSV_ROWS + 1
    )
    return csv_response(
        "transactions", columns=_CSV_COLUMNS, rows=map(_render_entry, entries), max_rows=MAX_CSV_ROWS
    )
