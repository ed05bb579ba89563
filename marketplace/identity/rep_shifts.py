"""Weekly shifts of campus representatives at hubs."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity import texts
from marketplace.identity.models import Profile, RepShift
from marketplace.infra.db import violated_constraint
from marketplace.kernel.errors import ConflictError, LimitReachedError, ValidationError, found
from marketplace.kernel.opening_hours import LAGOS, OpenInterval
from marketplace.platform.models import Hub

MAX_SHIFTS = 100  # of a hub; the operational view shows all
CAMPUS_REP = "campus_rep"


class ShiftsOverlapError(ConflictError):
    """The representative has another shift at this time."""

    reason = "shifts-overlap"


@dataclass(frozen=True)
class ShiftRep:
    """A representative on a shift."""

    id: UUID
    name: str | None


@dataclass(frozen=True)
class Shift:
    """A weekly shift. ``on_duty`` tells whether the shift is running now."""

    id: UUID
    hub_id: UUID
    rep: ShiftRep
    day: str
    starts: str
    ends: str
    on_duty: bool


def create_shift(session: Session, *, hub_id: UUID, user_id: UUID, period: OpenInterval, act: Act) -> Shift:
    """Add a weekly shift of a representative at an active hub of the representative's campus.

    :raises ValidationError: the hub does not exist, or the person is no active representative of the hub's campus
    :raises ShiftsOverlapError: the representative has another shift at this time
    :raises LimitReachedError: the hub has ``MAX_SHIFTS`` shifts
    """
    # The lock makes concurrent additions count each other.
    hub = session.scalar(select(Hub).where(Hub.id == hub_id, Hub.active).with_for_update(key_share=True))
    if hub is None:
        raise ValidationError.of("hubId", texts.HUB_NOT_FOUND)
    person = session.get(Profile, user_id)
    if person is None or not _is_rep_of(person, hub.campus_id):
        raise ValidationError.of("userId", texts.NOT_A_REP)
    count = session.scalar(select(func.count()).select_from(RepShift).where(RepShift.hub_id == hub_id))
    if (count or 0) >= MAX_SHIFTS:
        raise LimitReachedError(texts.TOO_MANY_SHIFTS.format(limit=MAX_SHIFTS))
    shift = RepShift(
        user_id=user_id,
        hub_id=hub_id,
        weekday=period.weekday,
        starts_minute=period.opens_minute,
        ends_minute=period.closes_minute,
        created_at=act.now,
        updated_at=act.now,
    )
    try:
        with session.begin_nested():
            session.add(shift)
            session.flush()
    except IntegrityError as error:
        if violated_constraint(error) != "ex_rep_shifts_user":
            raise
        raise ShiftsOverlapError(texts.SHIFTS_OVERLAP) from error
    _record(session, act, "create", shift, after=_snapshot(shift))
    return _build_shift(shift, person.name, closed=False, now=act.now)


def delete_shift(session: Session, *, shift_id: UUID, act: Act) -> None:
    """Delete a shift.

    :raises NotFoundError: the shift does not exist
    """
    locked = session.scalar(select(RepShift).where(RepShift.id == shift_id).with_for_update())
    shift = found(locked, texts.SHIFT_NOT_FOUND)
    _record(session, act, "delete", shift, before=_snapshot(shift))
    session.delete(shift)
    session.flush()


def list_shifts(
    session: Session, *, hub_ids: Sequence[UUID], closed_hub_ids: Collection[UUID], now: datetime
) -> Mapping[UUID, list[Shift]]:
    """List the shifts at hubs by time, in one query. People who are no longer representatives are left out.

    :param closed_hub_ids: hubs with a public holiday today, where nobody is on duty
    """
    shifts: defaultdict[UUID, list[Shift]] = defaultdict(list)
    for shift, name in session.execute(
        select(RepShift, Profile.name)
        .join(Profile, Profile.id == RepShift.user_id)
        .join(Hub, Hub.id == RepShift.hub_id)
        .where(
            RepShift.hub_id.in_(hub_ids),
            Profile.staff_role == CAMPUS_REP,
            Profile.account_status == "active",
            Profile.campus_id == Hub.campus_id,
        )
        .order_by(RepShift.weekday, RepShift.starts_minute, RepShift.id)
    ):
        closed = shift.hub_id in closed_hub_ids
        shifts[shift.hub_id].append(_build_shift(shift, name, closed=closed, now=now))
    return shifts


def _is_rep_of(person: Profile, campus_id: UUID) -> bool:
    return (
        person.staff_role == CAMPUS_REP
        and person.account_status == "active"
        and person.campus_id == campus_id
    )


def _build_shift(shift: RepShift, name: str | None, *, closed: bool, now: datetime) -> Shift:
    local = now.astimezone(LAGOS)
    minute = local.hour * 60 + local.minute
    period = OpenInterval(shift.weekday, shift.starts_minute, shift.ends_minute)
    return Shift(
        id=shift.id,
        hub_id=shift.hub_id,
        rep=ShiftRep(shift.user_id, name),
        day=period.day,
        starts=period.opens,
        ends=period.closes,
        on_duty=not closed
        and local.weekday() == shift.weekday
        and shift.starts_minute <= minute < shift.ends_minute,
    )


def _snapshot(shift: RepShift) -> dict[str, Any]:
    period = OpenInterval(shift.weekday, shift.starts_minute, shift.ends_minute)
    return {
        "hubId": str(shift.hub_id),
        "userId": str(shift.user_id),
        "day": period.day,
        "starts": period.opens,
        "ends": period.closes,
    }


def _record(session: Session, act: Act, verb: str, shift: RepShift, **snapshots: dict[str, Any]) -> None:
    record_audit_entry(
        session,
        act=act,
        action=f"rep_shift.{verb}",
        target_type="rep_shift",
        target_id=str(shift.id),
        **snapshots,
    )
