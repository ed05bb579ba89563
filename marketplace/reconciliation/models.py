"""Tables of reconciliation: runs, exceptions, and the gateway's movements and records."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, CreatedAt, Entity


class Reconciliation(Entity):
    """A run that compares the gateway's balance with the ledger.

    ``gateway_minor`` = ``books_minor`` + ``in_flight_minor`` + ``drift_minor``.
    """

    __tablename__ = "reconciliations"
    __table_args__ = (
        CheckConstraint("status IN ('running', 'matched', 'drift', 'failed')", name="status"),
        CheckConstraint("started_by IN ('officer', 'schedule', 'operator')", name="started_by"),
        CheckConstraint("(status = 'running') = (finished_at IS NULL)", name="finished"),
        CheckConstraint("starts < ends", name="window_in_order"),
        CheckConstraint("(status = 'failed') = (failure IS NOT NULL)", name="failure_of_failed"),
        CheckConstraint(
            "status NOT IN ('matched', 'drift') OR gateway_minor = books_minor + in_flight_minor + drift_minor",
            name="adds_up",
        ),
        # One run at a time: runs post settlements and import the same movements.
        Index(
            "uq_reconciliations_running", "status", unique=True, postgresql_where=text("status = 'running'")
        ),
        Index("ix_reconciliations_status", "status", text("id DESC")),
    )

    status: Mapped[str]
    started_by: Mapped[str]
    officer_id: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"), index=True)
    starts: Mapped[datetime] = mapped_column(comment="Start of the window of the gateway's lists")
    ends: Mapped[datetime]
    claimed_until: Mapped[datetime | None] = mapped_column(
        comment="End of the worker's lease: no other worker performs the run before"
    )
    gateway_minor: Mapped[int | None]
    books_minor: Mapped[int | None]
    in_flight_minor: Mapped[int | None]
    drift_minor: Mapped[int | None]
    figures: Mapped[dict[str, Any]] = mapped_column(
        server_default=text("'{}'"), comment="Counts of records read, movements posted and differences found"
    )
    failure: Mapped[str | None]
    created_at: Mapped[CreatedAt]
    finished_at: Mapped[datetime | None]


class ReconciliationException(Entity):
    """A difference between the gateway (there) and the ledger (here) that a run found. Officers resolve differences."""

    __tablename__ = "reconciliation_exceptions"
    __table_args__ = (
        CheckConstraint(
            "problem IN ('missing_here', 'missing_there', 'amounts_differ', 'status_differs')", name="problem"
        ),
        CheckConstraint("(resolved_at IS NULL) = (resolution IS NULL)", name="resolved"),
        CheckConstraint(
            "num_nulls(proposed_resolution, proposed_by, proposed_at, proposal_note) IN (0, 4)",
            name="proposed",
        ),
        Index("uq_reconciliation_exceptions_item", "run_id", "item", unique=True),
        Index(
            "ix_reconciliation_exceptions_order", "order_id", postgresql_where=text("order_id IS NOT NULL")
        ),
        Index("ix_reconciliation_exceptions_page", "run_id", "id"),
        Index(
            "ix_reconciliation_exceptions_proposed",
            "proposed_at",
            postgresql_where=text("proposed_at IS NOT NULL"),
        ),
    )

    run_id: Mapped[UUID] = mapped_column(ForeignKey("reconciliations.id"))
    item: Mapped[str] = mapped_column(
        comment="The item's name, the same in each run: charge:<id>, payout:<id>, ..."
    )
    kind: Mapped[str]
    problem: Mapped[str]
    action: Mapped[str] = mapped_column(comment="The suggested action")
    here_minor: Mapped[int] = mapped_column(comment="Sum of the ledger's postings of the item")
    there_minor: Mapped[int] = mapped_column(comment="Sum of the gateway's movements of the item")
    here_status: Mapped[str | None]
    there_status: Mapped[str | None]
    here_amount_minor: Mapped[int | None]
    there_amount_minor: Mapped[int | None]
    reference: Mapped[str | None]
    gateway_id: Mapped[str | None]
    order_id: Mapped[UUID | None] = mapped_column(ForeignKey("orders.id"))
    refund_id: Mapped[UUID | None] = mapped_column(ForeignKey("refunds.id"), index=True)
    intent_id: Mapped[UUID | None] = mapped_column(ForeignKey("payout_transfer_intents.id"), index=True)
    happened_at: Mapped[datetime | None]
    proposed_resolution: Mapped[str | None] = mapped_column(
        comment="The resolution that another officer has to confirm"
    )
    proposed_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"), index=True)
    proposed_at: Mapped[datetime | None]
    proposal_note: Mapped[str | None] = mapped_column(info={"personal": "message"})
    resolved_at: Mapped[datetime | None]
    resolved_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"), index=True)
    resolution: Mapped[str | None]
    note: Mapped[str | None] = mapped_column(info={"personal": "message"})
    created_at: Mapped[CreatedAt]


class GatewayMovement(Base):
    """A movement of the gateway's balance since the service's first day, as listed by the gateway.

    The movement with id 0 is made by the import: the opening balance of that day.
    """

    __tablename__ = "gateway_movements"
    __table_args__ = (
        Index("ix_gateway_movements_row", "model", "row_id"),
        Index("ix_gateway_movements_read_by", "read_by", postgresql_where=text("read_by IS NOT NULL")),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    model: Mapped[str]
    row_id: Mapped[str]
    subject: Mapped[UUID | None] = mapped_column(
        comment="Id of the refund, payout or dispute that caused the movement"
    )
    charge_id: Mapped[str | None] = mapped_column(
        comment="The gateway's charge of a refund, where a list names the charge"
    )
    difference_minor: Mapped[int]
    balance_minor: Mapped[int]
    happened_at: Mapped[datetime]
    read_by: Mapped[UUID | None] = mapped_column(
        ForeignKey("reconciliations.id"), comment="The run that is still importing: there may be gaps"
    )


class ReconciliationRecord(Base):
    """A record of the gateway's lists, imported by a run and deleted at the end of the run."""

    __tablename__ = "reconciliation_records"
    __table_args__ = (
        Index("ix_reconciliation_records_reference", "run_id", "kind", "reference"),
        Index("ix_reconciliation_records_subject", "run_id", "kind", "subject"),
    )

    run_id: Mapped[UUID] = mapped_column(ForeignKey("reconciliations.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    gateway_id: Mapped[str] = mapped_column(primary_key=True)
    reference: Mapped[str]
    status: Mapped[str]
    amount_minor: Mapped[int]
    fee_minor: Mapped[int]
    currency: Mapped[str]
    subject: Mapped[UUID | None]
    charge_id: Mapped[str]
    dispute_id: Mapped[str]
    created_at: Mapped[datetime]
    changed_at: Mapped[datetime]


class ReconciliationDifference(Base):
    """An item with different sums on both sides, to be classified by a run and deleted at the end of the run."""

    __tablename__ = "reconciliation_differences"

    run_id: Mapped[UUID] = mapped_column(ForeignKey("reconciliations.id"), primary_key=True)
    item: Mapped[str] = mapped_column(primary_key=True)
    here_minor: Mapped[int]
    here_now_minor: Mapped[int] = mapped_column(
        comment="The ledger's sum, including postings made during the import"
    )
    there_minor: Mapped[int]
    gateway_id: Mapped[str | None]
    moved_at: Mapped[datetime | None]
    booked_at: Mapped[datetime | None]
