"""Routes of the administration of people, for staff."""

from typing import Any
from uuid import UUID

from blueprints.http import USER_STAFF, USER_STAFF_AAL2, Context, ContractBlueprint, SharedLimit, omit_fields
from blueprints.people.schemas import GrantStaffRole, PeopleQuery, PersonSummary, PersonView, RevokeStaffRole
from marketplace.kernel.errors import ConflictOfInterestError
from marketplace.kernel.paging import TablePage
from marketplace.people import queries, staff_roles

area = ContractBlueprint("people", "/api/admin/users", "People, for staff")


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
