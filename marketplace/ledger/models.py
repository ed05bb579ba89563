"""Tables of the ledger. Triggers in migration 1007 enforce balanced, append-only transactions."""

from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, CreatedAt, Entity, Id


class LedgerAccount(Base):
    """An account, named ``kind`` or ``kind:<owner>``.

    ``balance_minor`` is stored for accounts with an owner only. Owners read running balances, which must never be
    negative. Balances of platform accounts are summed on demand, so that unrelated payments do not wait for a row lock.
    """

    __tablename__ = "ledger_accounts"
    __table_args__ = (
        UniqueConstraint("kind", "owner_id", postgresql_nulls_not_distinct=True),
        CheckConstraint("(owner_id IS NULL) = (balance_minor IS NULL)", name="balance_of_owned"),
        CheckConstraint("balance_minor >= 0", name="balance_not_negative"),
        CheckConstraint("normal_side IN ('debit', 'credit')", name="normal_side"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, comment="Derived from the account name")
    kind: Mapped[str]
    owner_id: Mapped[UUID | None] = mapped_column(index=True)
    normal_side: Mapped[str]
    balance_minor: Mapped[int | None]
    created_at: Mapped[CreatedAt]


class LedgerTransaction(Entity):
    """A balanced transaction. ``(kind, source)`` identifies the cause, so that a replay cannot post twice."""

    __tablename__ = "ledger_transactions"
    __table_args__ = (UniqueConstraint("kind", "source"),)

    kind: Mapped[str]
    source: Mapped[str]
    description: Mapped[str]
    created_at: Mapped[CreatedAt]
    posted_in: Mapped[int] = mapped_column(
        server_default=text("(pg_current_xact_id()::text)::bigint"),
        comment="The database transaction of the posting: no other transaction may add entries",
    )


_OWNED = text("balance_after_minor IS NOT NULL")


class LedgerEntry(Base):
    """A debit or credit of a transaction.

    The primary key starts with the account, so that a page of a statement reads entries of that account only. With a
    key of the id alone, PostgreSQL may scan the entries of all accounts.
    """

    __tablename__ = "ledger_entries"
    __table_args__ = (
        CheckConstraint("direction IN ('debit', 'credit')", name="direction"),
        CheckConstraint("amount_minor > 0", name="amount_positive"),
        Index(
            "ix_ledger_entries_order", "order_id", "account_id", postgresql_where=text("order_id IS NOT NULL")
        ),
        # Only accounts with an owner have statements with filters.
        Index("ix_ledger_entries_kind", "account_id", "kind", text("id DESC"), postgresql_where=_OWNED),
        Index(
            "ix_ledger_entries_direction", "account_id", "direction", text("id DESC"), postgresql_where=_OWNED
        ),
        Index("ix_ledger_entries_time", "account_id", "created_at", "id", postgresql_where=_OWNED),
    )

    account_id: Mapped[UUID] = mapped_column(ForeignKey("ledger_accounts.id"), primary_key=True)
    id: Mapped[Id]
    transaction_id: Mapped[UUID] = mapped_column(ForeignKey("ledger_transactions.id"), index=True)
    kind: Mapped[str] = mapped_column(comment="Copy of the transaction's kind, for an index of statements")
    direction: Mapped[str]
    amount_minor: Mapped[int]
    balance_after_minor: Mapped[int | None]
    order_id: Mapped[UUID | None]
    created_at: Mapped[CreatedAt]
