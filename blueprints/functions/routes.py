"""Functions for the identity provider and the database: provision a new user."""

from typing import Any

from blueprints.functions.schemas import CreatedUser, CreateUser
from blueprints.http import FUNCTION_CALLER, Context, ContractBlueprint, SharedLimit
from marketplace.kernel.errors import AccountErasedError
from marketplace.referrals.provision import EmailDomainBarredError, NewUser, provision_user

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
