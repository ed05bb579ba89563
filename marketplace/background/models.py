"""Tables of background work: the schedule, and how much was done."""

from datetime import datetime
from uuid import UUID

import structlog
from sqlalchemy import CheckConstraint, Integer, SmallInteger, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base
from marketplace.kernel.schedules import InvalidScheduleError, Schedule, parse_schedule

_log = structlog.get_logger(__name__)


class PeriodicTaskState(Base):
    """A periodic task's state. Its queue, its purpose and its declared timetable are the code's, noted by workers.

    ``run_id`` is of the run that goes on. Whoever runs it raises ``beats`` every few seconds: if they stand
    still, it was lost with its worker.
    """

    __tablename__ = "periodic_tasks"
    __table_args__ = (
        CheckConstraint("outcome IN ('succeeded', 'failed', 'interrupted')", name="outcome"),
        CheckConstraint(
            "(run_id IS NULL) = (run_by IS NULL) AND (run_id IS NULL) = (started_at IS NULL)", name="run"
        ),
        CheckConstraint("(finished_at IS NULL) = (outcome IS NULL)", name="finished"),
    )

    name: Mapped[str] = mapped_column(primary_key=True)
    queue: Mapped[str]
    purpose: Mapped[str]
    declared: Mapped[str]
    timetable: Mapped[str | None] = mapped_column(comment="An operator's; none means the declared one")
    next_run_at: Mapped[datetime]
    paused_at: Mapped[datetime | None]
    run_id: Mapped[UUID | None]
    run_by: Mapped[str | None]
    started_at: Mapped[datetime | None]
    beats: Mapped[int] = mapped_column(server_default=text("0"))
    finished_at: Mapped[datetime | None] = mapped_column(comment="Of the last run that ended, as all below")
    duration_milliseconds: Mapped[int | None]
    outcome: Mapped[str | None]
    error: Mapped[str | None] = mapped_column(comment="The error's type")
    result: Mapped[str | None]
    runs: Mapped[int] = mapped_column(server_default=text("0"), comment="That ended")
    failures: Mapped[int] = mapped_column(Integer, server_default=text("0"), comment="The last ones in a row")

    @property
    def effective_schedule(self) -> Schedule:
        """The schedule in force: the operator's, or else the declared one."""
        if self.timetable is not None:
            try:
                return parse_schedule(self.timetable)
            except InvalidScheduleError:
                # Written by a version that knew more: the declared one is better than none.
                _log.error("timetable not understood", task=self.name, timetable=self.timetable)
        return parse_schedule(self.declared)

    @property
    def is_rescheduled(self) -> bool:
        """Whether an operator set the schedule."""
        return self.timetable is not None

    @property
    def upcoming_run_at(self) -> datetime | None:
        """The next run, unless the task is paused."""
        return None if self.paused_at else self.next_run_at


class QueueCount(Base):
    """How many rows of a queue were completed, ever; triggers count, each connection in one of a few rows."""

    __tablename__ = "queue_counts"

    queue: Mapped[str] = mapped_column(primary_key=True)
    shard: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    completed: Mapped[int] = mapped_column(server_default=text("0"))
