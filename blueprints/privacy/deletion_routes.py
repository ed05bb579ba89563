"""Routes of the deletion of accounts, and of open requests about personal data."""

from typing import Any

from blueprints.http import (
    AUTHENTICATED_ANY_STATUS,
    AUTHENTICATED_RECENTLY,
    COMPLIANCE_STAFF,
    Context,
    ContractBlueprint,
    SharedLimit,
)
from blueprints.privacy.deletion_schemas import (
    DeletionView,
    OpenRequestQuery,
    OpenRequestView,
    RequestDeletion,
)
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import Page
from marketplace.privacy import deletion, requests

area = ContractBlueprint("account-deletion", "/api/users/me", "Deletion of your account")
requests_area = ContractBlueprint(
    "privacy-requests", "/api/admin/privacy-requests", "Requests about personal data, for staff"
)


@area.post(
    "/request-deletion",
    auth=AUTHENTICATED_RECENTLY,
    limit="1/day",
    body=RequestDeletion,
    reply=DeletionView,
    status=201,
    raises=(deletion.DeletionRequestedError, deletion.DeletionBlockedError),
)
def request_account_deletion(ctx: Context, body: dict[str, Any]) -> deletion.Deletion:
    """Request the deletion of your account and your data.

    The account is restricted for 30 days, in which you can cash out your money and cancel the deletion. Open orders and
    disputes block the deletion: `blockers` of the error lists them.
    """
    return deletion.request_deletion(ctx.session, user_id=ctx.user.id, reason=body.get("reason"), act=ctx.act)


@area.post(
    "/cancel-deletion",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    reply=DeletionView,
    raises=(deletion.NoDeletionPendingError,),
)
def cancel_account_deletion(ctx: Context) -> deletion.Deletion:
    """Cancel the deletion of your account. The account is as before the request."""
    return deletion.cancel_deletion(ctx.session, user_id=ctx.user.id, act=ctx.act)


@area.get(
    "/deletion-request",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    reply=DeletionView,
    raises=(NotFoundError,),
)
def get_account_deletion(ctx: Context) -> deletion.Deletion:
    """Get your latest request to delete the account, with the money that you can still cash out."""
    return deletion.show_deletion(ctx.session, user_id=ctx.user.id)


@requests_area.get(
    "",
    auth=COMPLIANCE_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=OpenRequestQuery,
    reply=OpenRequestView(many=True),
)
def list_privacy_requests(ctx: Context, query: dict[str, Any]) -> Page:
    """List the open requests of all people, the earliest due date first.

    A deletion is due 30 days after its grace period, an export 30 days after its request.
    """
    return requests.list_open_requests(ctx.session, kind=query["kind"], page=ctx.page, now=ctx.now)
