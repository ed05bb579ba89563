"""Table of referrals."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import CreatedAt, Entity


class Referral(Entity):
    """The referral of a newcomer. Rewards are fixed at the sign-up and booked at most once each."""

    __tablename__ = "referrals"
    __table_args__ = (
        CheckConstraint("status IN ('pending', 'rewarded', 'rejected')", name="status"),
        CheckConstraint("(status = 'rejected') = (rejection IS NOT NULL)", name="rejection"),
        CheckConstraint(
            "rejection IN ('unknown_code', 'code_expired', 'same_person', 'loop', 'referrer_not_active',"
            " 'newcomer_not_active', 'cap_reached', 'budget_spent', 'no_order_in_time')",
            name="rejection_known",
        ),
        CheckConstraint("(rejection = 'unknown_code') IS TRUE = (referrer_id IS NULL)", name="referrer"),
        # Only a rejected referral may name the newcomer as referrer.
        CheckConstraint("accepted_at IS NULL OR referrer_id <> newcomer_id", name="not_self"),
        CheckConstraint("status = 'rejected' OR accepted_at IS NOT NULL", name="accepted"),
        CheckConstraint("(status = 'rewarded') = (rewarded_at IS NOT NULL)", name="rewarded"),
        CheckConstraint("least(newcomer_minor, referrer_minor) >= 0", name="amounts"),
        CheckConstraint(
            "(newcomer_transaction_id IS NOT NULL) = (accepted_at IS NOT NULL AND newcomer_minor > 0)",
            name="newcomer_booked",
        ),
        CheckConstraint(
            "(referrer_transaction_id IS NOT NULL) = (rewarded_at IS NOT NULL AND referrer_minor > 0)",
            name="referrer_booked",
        ),
        Index("ix_referrals_referrer", "referrer_id", "accepted_at"),
        Index("ix_referrals_accepted", "accepted_at", postgresql_where=text("accepted_at IS NOT NULL")),
        Index("ix_referrals_rewarded", "rewarded_at", postgresql_where=text("rewarded_at IS NOT NULL")),
        Index("ix_referrals_pending", "accepted_at", postgresql_where=text("status = 'pending'")),
    )

    newcomer_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), unique=True)
    referrer_id: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    status: Mapped[str]
    rejection: Mapped[str | None]
    newcomer_minor: Mapped[int] = mapped_column(comment="The newcomer's reward in kobo, fixed at the sign-up")
    referrer_minor: Mapped[int] = mapped_column(comment="The referrer's reward in kobo, fixed at the sign-up")
    accepted_at: Mapped[datetime | None] = mapped_column(
        comment="Time of the newcomer's reward; null if the sign-up earned nothing"
    )
    rewarded_at: Mapped[datetime | None] = mapped_column(comment="Time of the referrer's reward")
    order_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("orders.id"), unique=True, comment="The delivered order that rewarded the referrer"
    )
    newcomer_transaction_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("ledger_transactions.id"), unique=True
    )
    referrer_transaction_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("ledger_transactions.id"), unique=True
    )
    created_at: Mapped[CreatedAt]
