"""The terms of the register of personal data."""

from dataclasses import dataclass
from enum import StrEnum


class Basis(StrEnum):
    """The lawful basis of processing, by section 25 of the Nigeria Data Protection Act 2023."""

    CONTRACT = "contract"
    LEGAL_OBLIGATION = "legal obligation"
    LEGITIMATE_INTEREST = "legitimate interest"
    CONSENT = "consent"


class OnErasure(StrEnum):
    """The treatment of a person's rows by an erasure."""

    ERASE = "erase"
    """Delete the rows, and their files."""
    ANONYMISE = "anonymise"
    """Keep the rows without the personal columns."""
    RETAIN = "retain"
    """Keep the rows with a reason and an end. The person stays as a pseudonym: the id of an empty profile."""


@dataclass(frozen=True)
class Retention:
    """The time for which rows are kept.

    :ivar days: days from the time in ``since``; none while the account exists
    :ivar reason: the reason to keep rows after an erasure; none if no row is kept
    :ivar since: the column with the start of the retention
    """

    days: int | None = None
    reason: str | None = None
    since: str = "created_at"


WHILE_ACCOUNT_EXISTS = Retention()
# Section 63 of the Companies and Allied Matters Act and tax law ask for six years after the end of the year.
FINANCIAL_RECORDS = Retention(7 * 365, "Records of payments must be kept for tax and accounting.")
DISPUTE_RECORDS = Retention(7 * 365, "Records of complaints and rulings support later legal claims.")
CONDUCT_RECORDS = Retention(2 * 365, "Decisions about misconduct prevent the return under another account.")
AUDIT_RECORDS = Retention(7 * 365, "Acts of staff and of the service stay verifiable.")


@dataclass(frozen=True)
class PersonalTable:
    """A table with rows of people.

    :ivar area: the document of an export, and the chapter of the documentation
    :ivar subject: the SQL condition on the table's alias ``t`` for the rows of the person ``:user_id``
    :ivar purpose: the use of the data
    """

    area: str
    subject: str
    purpose: str
    basis: Basis
    on_erasure: OnErasure
    retention: Retention = WHILE_ACCOUNT_EXISTS

    def __post_init__(self) -> None:
        if (self.on_erasure is OnErasure.RETAIN) != (self.retention.reason is not None):
            raise ValueError(f"{self.area}: exactly retained rows have a reason")


@dataclass(frozen=True)
class PersonalKeys:
    """Objects or cache keys with data of people.

    :ivar prefix: the beginning of the names
    :ivar ends: the end of the data
    """

    prefix: str
    purpose: str
    on_erasure: OnErasure
    ends: str
