"""Routes of campuses and hubs: public lists, the operational view, and changes by staff."""

from typing import Any
from uuid import UUID

from blueprints.campuses.schemas import (
    AddCampus,
    AddDomain,
    AddHoliday,
    AddHub,
    AddShift,
    CampusView,
    ChangeCampus,
    ChangeHoliday,
    ChangeHub,
    HolidayQuery,
    HolidayView,
    HubQuery,
    HubView,
    OperatedHubView,
    OperationsQuery,
    RemovedDomain,
    ShiftView,
    StaffCampusView,
    StaffHub,
)
from blueprints.http import (
    PLATFORM_STAFF,
    PUBLIC,
    STAFF,
    Context,
    ContractBlueprint,
    CursorQuery,
    Deleted,
    SharedLimit,
    expected_revision,
    omit_fields,
)
from marketplace.identity import rep_shifts
from marketplace.kernel.errors import LimitReachedError, NotFoundError, StaleRevisionError
from marketplace.kernel.opening_hours import LAGOS
from marketplace.kernel.paging import Page
from marketplace.orders import hub_pickups
from marketplace.platform.campuses import campus_list, email_domains, holidays, hubs
from marketplace.platform.models import PublicHoliday

area = ContractBlueprint("campuses", "/api/campuses", "Campuses and their pickup hubs")
operations_area = ContractBlueprint(
    "campus-operations", "/api/campus/operations", "Operation of hubs, for staff"
)
admin_area = ContractBlueprint("campus-administration", "/api/admin/campuses", "Campuses and hubs, for staff")
shift_area = ContractBlueprint("rep-shifts", "/api/admin/rep-shifts", "Shifts of representatives, for staff")
holiday_area = ContractBlueprint(
    "public-holidays", "/api/admin/public-holidays", "Public holidays, for staff"
)


@area.get("", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=CursorQuery, reply=CampusView(many=True))
def list_campuses(ctx: Context, query: dict[str, Any]) -> Page:
    """List the campuses by name."""
    return campus_list.list_campuses(ctx.session, page=ctx.page)


@area.get(
    "/<string:campus_id>/hubs",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=HubQuery,
    reply=HubView(many=True),
)
def list_hubs(ctx: Context, campus_id: str, query: dict[str, Any]) -> Page:
    """List the hubs of a campus with opening hours, by distance if you send a place, else by name."""
    place = (query["lat"], query["lng"]) if "lat" in query else None
    return hubs.list_public_hubs(ctx.session, campus=campus_id, place=place, page=ctx.page, now=ctx.now)


@admin_area.get(
    "",
    auth=PLATFORM_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=CursorQuery,
    reply=StaffCampusView(many=True),
)
def list_campuses_for_staff(ctx: Context, query: dict[str, Any]) -> Page:
    """List all campuses with e-mail domains by name."""
    return campus_list.list_campuses_for_staff(ctx.session, page=ctx.page)


@admin_area.post(
    "",
    auth=PLATFORM_STAFF,
    limit="30/minute",
    body=AddCampus,
    reply=StaffCampusView,
    status=201,
    raises=(campus_list.CampusSlugTakenError,),
)
def create_campus(ctx: Context, body: dict[str, Any]) -> campus_list.StaffCampus:
    """Create a campus."""
    campus_id = campus_list.create_campus(ctx.session, act=ctx.act, **body)
    return campus_list.show_campus(ctx.session, campus_id=campus_id)


@admin_area.put(
    "/<uuid:campus_id>",
    auth=PLATFORM_STAFF,
    limit="30/minute",
    body=ChangeCampus,
    reply=StaffCampusView,
    raises=(StaleRevisionError,),
)
def update_campus(ctx: Context, campus_id: UUID, body: dict[str, Any]) -> campus_list.StaffCampus:
    """Rename, hide or show a campus."""
    campus_list.update_campus(
        ctx.session,
        campus_id=campus_id,
        changes=omit_fields(body, "revision"),
        revision=expected_revision(body.get("revision")),
        act=ctx.act,
    )
    return campus_list.show_campus(ctx.session, campus_id=campus_id)


@admin_area.post(
    "/<uuid:campus_id>/domains",
    auth=PLATFORM_STAFF,
    limit="30/minute",
    body=AddDomain,
    reply=StaffCampusView,
    status=201,
    raises=(email_domains.EmailDomainTakenError, LimitReachedError),
)
def add_campus_domain(ctx: Context, campus_id: UUID, body: dict[str, Any]) -> campus_list.StaffCampus:
    """Add an e-mail domain to a campus. New people with an address of the domain belong to the campus."""
    email_domains.add_domain(ctx.session, campus_id=campus_id, domain=body["domain"], act=ctx.act)
    return campus_list.show_campus(ctx.session, campus_id=campus_id)


@admin_area.delete(
    "/<uuid:campus_id>/domains/<string:domain>", auth=PLATFORM_STAFF, limit="30/minute", reply=RemovedDomain
)
def remove_campus_domain(ctx: Context, campus_id: UUID, domain: str) -> dict[str, Any]:
    """Remove an e-mail domain from a campus. People keep their campus."""
    removed = email_domains.remove_domain(ctx.session, campus_id=campus_id, domain=domain, act=ctx.act)
    return {"domain": removed, "deleted": True}


@admin_area.post(
    "/<uuid:campus_id>/hubs",
    auth=PLATFORM_STAFF,
    limit="30/minute",
    body=AddHub,
    reply=StaffHub,
    status=201,
    raises=(hubs.HubNameTakenError, LimitReachedError),
)
def create_hub(ctx: Context, campus_id: UUID, body: dict[str, Any]) -> hubs.HubStatus:
    """Create a hub of a campus."""
    return hubs.create_hub(ctx.session, campus_id=campus_id, fields=body, act=ctx.act)


@admin_area.put(
    "/<uuid:campus_id>/hubs/<uuid:hub_id>",
    auth=PLATFORM_STAFF,
    limit="30/minute",
    body=ChangeHub,
    reply=StaffHub,
    raises=(hubs.HubNameTakenError, StaleRevisionError),
)
def update_hub(ctx: Context, campus_id: UUID, hub_id: UUID, body: dict[str, Any]) -> hubs.HubStatus:
    """Change, close or reopen a hub. Open orders keep a closed hub; new orders cannot choose the hub."""
    return hubs.update_hub(
        ctx.session,
        campus_id=campus_id,
        hub_id=hub_id,
        changes=omit_fields(body, "revision"),
        revision=expected_revision(body.get("revision")),
        act=ctx.act,
    )


@operations_area.get(
    "/hubs",
    auth=STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=OperationsQuery,
    reply=OperatedHubView(many=True),
    raises=(NotFoundError,),
)
def list_operated_hubs(ctx: Context, query: dict[str, Any]) -> Page:
    """List hubs with waiting pickups and shifts. A campus representative sees only hubs of their campus."""
    return hub_pickups.list_operated_hubs(
        ctx.session, caller=ctx.user, campus=query["campus"], page=ctx.page, now=ctx.now
    )


@shift_area.post(
    "",
    auth=PLATFORM_STAFF,
    limit="30/minute",
    body=AddShift,
    reply=ShiftView,
    status=201,
    raises=(rep_shifts.ShiftsOverlapError, LimitReachedError),
)
def create_rep_shift(ctx: Context, body: dict[str, Any]) -> rep_shifts.Shift:
    """Add a weekly shift of a campus representative at a hub."""
    return rep_shifts.create_shift(ctx.session, act=ctx.act, **body)


@shift_area.delete("/<uuid:shift_id>", auth=PLATFORM_STAFF, limit="30/minute", reply=Deleted)
def delete_rep_shift(ctx: Context, shift_id: UUID) -> dict[str, Any]:
    """Delete a shift."""
    rep_shifts.delete_shift(ctx.session, shift_id=shift_id, act=ctx.act)
    return {"deleted": True, "id": shift_id}


@holiday_area.get(
    "", auth=STAFF, limit=SharedLimit.CALLER_TIER, query=HolidayQuery, reply=HolidayView(many=True)
)
def list_public_holidays(ctx: Context, query: dict[str, Any]) -> Page:
    """List public holidays by date, also cancelled ones."""
    from_date = query.get("from_") or ctx.now.astimezone(LAGOS).date()
    return holidays.list_holidays(ctx.session, from_date=from_date, page=ctx.page)


@holiday_area.post(
    "",
    auth=PLATFORM_STAFF,
    limit="30/minute",
    body=AddHoliday,
    reply=HolidayView,
    status=201,
    raises=(holidays.HolidayExistsError,),
)
def create_public_holiday(ctx: Context, body: dict[str, Any]) -> PublicHoliday:
    """Add a public holiday of a campus, or of all campuses."""
    return holidays.create_holiday(ctx.session, fields=body, act=ctx.act)


@holiday_area.put(
    "/<uuid:holiday_id>",
    auth=PLATFORM_STAFF,
    limit="30/minute",
    body=ChangeHoliday,
    reply=HolidayView,
    raises=(holidays.HolidayExistsError, StaleRevisionError),
)
def update_public_holiday(ctx: Context, holiday_id: UUID, body: dict[str, Any]) -> PublicHoliday:
    """Correct or cancel a public holiday."""
    return holidays.update_holiday(
        ctx.session,
        holiday_id=holiday_id,
        changes=omit_fields(body, "revision"),
        revision=expected_revision(body.get("revision")),
        act=ctx.act,
    )
