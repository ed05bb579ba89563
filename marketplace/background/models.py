"""Tables of background work: periodic tasks, and counts of completed rows."""

from datetime import datetime
from uuid import UUID

import structlog
from sqlalchemy import CheckConstraint, Integer, SmallInteger, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base
from marketplace.kernel.schedules import InvalidScheduleError, Schedule, parse_schedule

_log = structlog.get_logger(__name__)


class PeriodicTaskState(Base):
    """The state of a periodic task. Workers copy queue, purpose and declared schedule from the code.

    ``run_id`` is the current run, enqueued or running. The running process renews ``lease_until``. A run whose lease
    ended was lost, and any worker may claim a new run.
    """

    __tablename__ = "periodic_tasks"
    __table_args__ = (
        CheckConstraint("outcome IN ('succeeded', 'failed', 'interrupted')", name="outcome"),
        CheckConstraint("num_nulls(run_id, run_by, started_at, lease_until) IN (0, 4)", name="run"),
        CheckConstraint("(finished_at IS NULL) = (outcome IS NULL)", name="finished"),
    )

    name: Mapped[str] = mapped_column(primary_key=True)
    queue: Mapped[str]
    purpose: Mapped[str]
    declared: Mapped[str]
    timetable: Mapped[str | None] = mapped_column(
        comment="The schedule set by an operator; null for the declared schedule"
    )
    next_run_at: Mapped[datetime]
    paused_at: Mapped[datetime | None]
    run_id: Mapped[UUID | None]
    run_by: Mapped[str | None]
    started_at: Mapped[datetime | None]
    lease_until: Mapped[datetime | None]
    finished_at: Mapped[datetime | None] = mapped_column(
        comment="End of the last finished run; the columns below describe that run"
    )
    duration_milliseconds: Mapped[int | None]
    outcome: Mapped[str | None]
    error: Mapped[str | None] = mapped_column(comment="The type of the error")
    result: Mapped[str | None]
    runs: Mapped[int] = mapped_column(server_default=text("0"), comment="Number of finished runs")
    failures: Mapped[int] = mapped_column(
        Integer, server_default=text("0"), comment="Number of consecutive failures until now"
    )

    @property
    def effective_schedule(self) -> Schedule:
        """The schedule in force: set by an operator, or else declared in the code."""
        if self.timetable is not None:
            try:
                return parse_schedule(self.timetable)
            except InvalidScheduleError:
                # A newer version of the code may have stored a schedule that this version cannot parse.
                _log.error("timetable not parsed", task=self.name, timetable=self.timetable)
        return parse_schedule(self.declared)

    @property
    def is_rescheduled(self) -> bool:
        """Whether an operator set the schedule."""
        return self.timetable is not None

    @property
    def upcoming_run_at(self) -> datetime | None:
        """The time of the next run; None while the task is paused."""
        return None if self.paused_at else self.next_run_at


class QueueCount(Base):
    """Total of completed rows of a queue, counted by triggers. Shards keep connections from waiting for each other."""

    __tablename__ = "queue_counts"

    queue: Mapped[str] = mapped_column(primary_key=True)
    shard: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    completed: Mapped[int] = mapped_column(server_default=text("0"))
