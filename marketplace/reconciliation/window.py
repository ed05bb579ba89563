"""The window of a reconciliation: from when to when the gateway's lists are compared with the books."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from marketplace.kernel.errors import ValidationError
from marketplace.reconciliation.models import Reconciliation

# No gateway has anything from before, and what is near the first of all years can't be reckoned back from.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LONGEST_WINDOW = timedelta(days=366)
# Since the books and the gateway last agreed, yet no further back; what moved money is compared whatever its age.
_LONGEST_DEFAULT_WINDOW = timedelta(days=31)
_SHORTEST_DEFAULT_WINDOW = timedelta(hours=1)


def resolve_window(
    session: Session, *, since: datetime | None, until: datetime | None, now: datetime
) -> tuple[datetime, datetime]:
    """Give the window that a reconciliation is over.

    :param since: from when on; none for since both last agreed
    :param until: up to when; none for now
    :param now: the moment of the run
    :return: its start and its end
    :raises ValidationError: it is none, begins before the year 2000, lies in the future or is longer than a year
    """
    for name, moment in (("from", since), ("to", until)):
        if moment is not None and moment < EARLIEST:
            raise ValidationError.of(name, f"Must not be before {EARLIEST.year}.")
    if until is not None and until > now:
        raise ValidationError.of("to", "Must not lie in the future.")
    ends = until or now
    if since is None:
        matched = session.scalar(
            select(func.max(Reconciliation.ends)).where(
                Reconciliation.status == "matched", Reconciliation.ends <= ends
            )
        )
        since = max(ends - _LONGEST_DEFAULT_WINDOW, matched or ends - _LONGEST_DEFAULT_WINDOW)
        # The one before ended just now: an empty window would be none.
        since = min(since, ends - _SHORTEST_DEFAULT_WINDOW)
    if since >= ends:
        raise ValidationError.of("from", "Must be before to.")
    if ends - since > LONGEST_WINDOW:
        raise ValidationError.of("from", f"Must be at most {LONGEST_WINDOW.days} days before to.")
    return since, ends
