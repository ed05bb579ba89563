"""Routes of the administration of people, for staff."""

from typing import Any
from uuid import UUID

from blueprints.http import (
    AUTHENTICATED_ANY_STATUS,
    USER_STAFF,
    USER_STAFF_AAL2,
    Context,
    ContractBlueprint,
    SharedLimit,
    omit_fields,
)
from blueprints.people.schemas import (
    AppealQuery,
    AppealView,
    BarAccount,
    DecideAppeal,
    GrantStaffRole,
    OwnAccountStatus,
    PeopleQuery,
    PersonSummary,
    PersonView,
    ReinstateAccount,
    RevokeStaffRole,
    SubmitAppeal,
)
from marketplace.kernel.errors import ConflictOfInterestError
from marketplace.kernel.paging import Page, TablePage
from marketplace.people import account_status, appeals, own_status, queries, staff_roles

area = ContractBlueprint("people", "/api/admin/users", "People, for staff")
appeal_area = ContractBlueprint("appeals", "/api/admin/appeals", "Appeals of restricted people, for staff")
own_area = ContractBlueprint("account-status", "/api/users/me", "The status of your account")
_DECISION_ERRORS = (
    ConflictOfInterestError,
    account_status.StatusUnchangedError,
    staff_roles.LastAdminError,
)


@area.get(
    "",
    auth=USER_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=PeopleQuery,
    reply=PersonSummary(many=True),
)
def list_people(ctx: Context, query: dict[str, Any]) -> TablePage:
    """Find people by name, e-mail address, phone number, order number or id."""
    filters = queries.PeopleFilters(**omit_fields(query, "sort"))
    return queries.list_people(ctx.session, filters=filters, table=ctx.table)


@area.get("/<uuid:user_id>", auth=USER_STAFF, limit=SharedLimit.CALLER_TIER, reply=PersonView)
def get_person(ctx: Context, user_id: UUID) -> queries.Person:
    """Get a person with store, wallet and latest orders."""
    return queries.show_person(ctx.session, user_id=user_id)


@area.put(
    "/<uuid:user_id>/staff-role",
    auth=USER_STAFF_AAL2,
    limit="10/minute",
    body=GrantStaffRole,
    reply=PersonView,
    raises=(ConflictOfInterestError, staff_roles.LastAdminError),
)
def grant_staff_role(ctx: Context, user_id: UUID, body: dict[str, Any]) -> queries.Person:
    """Give a person a staff role, instead of any earlier staff role. You cannot change your own role."""
    staff_roles.grant_staff_role(ctx.session, user_id=user_id, act=ctx.act, **body)
    return queries.show_person(ctx.session, user_id=user_id)


@area.post(
    "/<uuid:user_id>/staff-role/revoke",
    auth=USER_STAFF_AAL2,
    limit="10/minute",
    body=RevokeStaffRole,
    reply=PersonView,
    raises=(ConflictOfInterestError, staff_roles.LastAdminError, staff_roles.NotStaffError),
)
def revoke_staff_role(ctx: Context, user_id: UUID, body: dict[str, Any]) -> queries.Person:
    """Take a person's staff role. The last active administrator keeps the role."""
    staff_roles.revoke_staff_role(ctx.session, user_id=user_id, act=ctx.act, reason=body["reason"])
    return queries.show_person(ctx.session, user_id=user_id)


@area.post(
    "/<uuid:user_id>/restrict",
    auth=USER_STAFF,
    limit="30/minute",
    body=BarAccount,
    reply=PersonView,
    raises=_DECISION_ERRORS,
)
def restrict_account(ctx: Context, user_id: UUID, body: dict[str, Any]) -> queries.Person:
    """Restrict a person's account. The store is hidden, and only paid orders can be completed."""
    return _bar_account(ctx, user_id, account_status.RESTRICTED, body)


@area.post(
    "/<uuid:user_id>/suspend",
    auth=USER_STAFF,
    limit="30/minute",
    body=BarAccount,
    reply=PersonView,
    raises=_DECISION_ERRORS,
)
def suspend_account(ctx: Context, user_id: UUID, body: dict[str, Any]) -> queries.Person:
    """Suspend a person's account. The store is hidden, and only paid orders can be completed."""
    return _bar_account(ctx, user_id, account_status.SUSPENDED, body)


@area.post(
    "/<uuid:user_id>/reinstate",
    auth=USER_STAFF,
    limit="30/minute",
    body=ReinstateAccount,
    reply=PersonView,
    raises=(*_DECISION_ERRORS, account_status.DeletionPendingError),
)
def reinstate_account(ctx: Context, user_id: UUID, body: dict[str, Any]) -> queries.Person:
    """End the restriction or suspension of a person's account, and show the store again."""
    account_status.reinstate_account(ctx.session, user_id=user_id, reason=body["reason"], act=ctx.act)
    return queries.show_person(ctx.session, user_id=user_id)


def _bar_account(ctx: Context, user_id: UUID, status: str, body: dict[str, Any]) -> queries.Person:
    account_status.bar_account(
        ctx.session,
        user_id=user_id,
        status=status,
        reason=body["reason"],
        until=body.get("until"),
        act=ctx.act,
    )
    return queries.show_person(ctx.session, user_id=user_id)


@appeal_area.get(
    "",
    auth=USER_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=AppealQuery,
    reply=AppealView(many=True),
)
def list_appeals(ctx: Context, query: dict[str, Any]) -> Page:
    """List the appeals of restricted and suspended people, the earliest first."""
    return appeals.list_appeals(ctx.session, status=query["status"], page=ctx.page)


@appeal_area.post(
    "/<uuid:appeal_id>/decide",
    auth=USER_STAFF,
    limit="30/minute",
    body=DecideAppeal,
    reply=AppealView,
    raises=(ConflictOfInterestError, appeals.AppealDecidedError),
)
def decide_appeal(ctx: Context, appeal_id: UUID, body: dict[str, Any]) -> appeals.AppealRow:
    """Rule on an appeal against another officer's decision. An accepted appeal makes the account active."""
    appeals.decide_appeal(
        ctx.session, appeal_id=appeal_id, outcome=body["outcome"], comment=body["comment"], act=ctx.act
    )
    return appeals.show_appeal(ctx.session, appeal_id=appeal_id)


@own_area.get(
    "/account-status", auth=AUTHENTICATED_ANY_STATUS, limit=SharedLimit.CALLER_TIER, reply=OwnAccountStatus
)
def get_account_status(ctx: Context) -> own_status.OwnStatus:
    """Get the status of your account: reason, end, remaining functions and appeal."""
    return own_status.show_own_status(ctx.session, user_id=ctx.user.id, now=ctx.now)


@own_area.post(
    "/appeal",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="5/day",
    body=SubmitAppeal,
    reply=OwnAccountStatus,
    status=201,
    raises=(appeals.AlreadyAppealedError, appeals.NothingToAppealError),
)
def submit_appeal(ctx: Context, body: dict[str, Any]) -> own_status.OwnStatus:
    """Appeal against the restriction or suspension of your account, once for each decision."""
    appeals.submit_appeal(ctx.session, user_id=ctx.user.id, message=body["message"], now=ctx.now)
    return own_status.show_own_status(ctx.session, user_id=ctx.user.id, now=ctx.now)
