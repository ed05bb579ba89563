"""Pickups at hubs: the operational view for staff."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.identity.rep_shifts import CAMPUS_REP, Shift, list_shifts
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.opening_hours import LAGOS
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.orders.deadlines import HANDOVER_DEADLINE
from marketplace.platform.campuses import hubs
from marketplace.platform.campuses.campus_list import find_campus
from marketplace.platform.campuses.holidays import fetch_closed_days
from marketplace.platform.models import Hub


@dataclass(frozen=True)
class PickupCounts:
    """Paid pickups of a hub: all undelivered, those shipped to the hub, and those that wait too long there."""

    waiting_pickups: int
    awaiting_handover: int
    overdue_handovers: int


@dataclass(frozen=True)
class _HubPickups(PickupCounts):
    hub_id: str


@dataclass(frozen=True)
class OperatedHub(hubs.HubStatus):
    """A hub in the operational view, with pickups and shifts."""

    pickups: PickupCounts
    shifts: list[Shift]

    @property
    def reps_on_duty(self) -> int:
        """The number of representatives whose shift is running."""
        return sum(shift.on_duty for shift in self.shifts)


def list_operated_hubs(
    session: Session, *, caller: Caller, campus: str | None, page: PageRequest, now: datetime
) -> Page:
    """List hubs with opening status, pickups and shifts, in at most five queries.

    :param caller: staff; a representative sees only hubs of the representative's campus
    :param campus: id or slug; None for every campus that the caller may see
    :raises NotFoundError: the campus does not exist, or is not the representative's
    """
    campus_id = None
    if caller.staff_role == CAMPUS_REP:
        # No campus has the id 0: a representative without a campus sees no hubs.
        campus_id = caller.campus_id or UUID(int=0)
    if campus is not None:
        requested_id = find_campus(session, campus).id
        if campus_id not in (None, requested_id):
            raise NotFoundError("Campus not found.")
        campus_id = requested_id
    [after] = page.after("id")
    rows = hubs.list_hubs_after(
        session, campus_id=campus_id, after=after and UUID(after), limit=page.limit + 1
    )
    found_page = page_of(list(rows), request=page, position_of=lambda hub: [str(hub.id)])
    return Page(_operate(session, found_page.items, now=now), found_page.limit, found_page.next_position)


_NO_PICKUPS = PickupCounts(0, 0, 0)
# ``ix_orders_open_pickups`` has the same conditions.
_COUNT_PICKUPS = Statement(
    text(
        """
        SELECT count(*) AS waiting_pickups,
            count(*) FILTER (WHERE status = 'shipped') AS awaiting_handover,
            count(*) FILTER (WHERE status = 'shipped' AND shipped_at < :shipped_before) AS overdue_handovers,
            shipping_address ->> 'hubId' AS hub_id
        FROM orders
        WHERE delivery_method = 'pickup' AND status IN ('paid_escrow', 'processing', 'shipped')
            AND shipping_address ->> 'hubId' = ANY(:hub_ids)
        GROUP BY shipping_address ->> 'hubId'
        """
    ),
    row=_HubPickups,
)


def _operate(session: Session, rows: Sequence[Hub], *, now: datetime) -> list[OperatedHub]:
    closed_days = fetch_closed_days(session, campus_ids={hub.campus_id for hub in rows}, now=now)
    today = now.astimezone(LAGOS).date()
    shifts = list_shifts(
        session,
        hub_ids=[hub.id for hub in rows],
        closed_hub_ids={hub.id for hub in rows if today in closed_days.of(hub.campus_id)},
        now=now,
    )
    counts = {
        row.hub_id: row
        for row in _COUNT_PICKUPS.all(
            session, hub_ids=[str(hub.id) for hub in rows], shipped_before=now - HANDOVER_DEADLINE
        )
    }
    return [
        OperatedHub(
            **vars(hubs.describe_hub(hub, closed_days=closed_days, now=now)),
            pickups=counts.get(str(hub.id), _NO_PICKUPS),
            shifts=shifts.get(hub.id, []),
        )
        for hub in rows
    ]
