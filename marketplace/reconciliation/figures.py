"""What a run of reconciliation comes to."""

from dataclasses import dataclass, field


@dataclass
class ReconciliationOutcome:
    """What became of a run: its figures in kobo, and how many exceptions it found, of items and in money."""

    status: str
    gateway_minor: int = 0
    books_minor: int = 0
    in_flight_minor: int = 0
    drift_minor: int = 0
    exceptions: int = 0


@dataclass
class ReconciliationFigures:
    """How much a run looked through, and what it found."""

    movements: int = 0
    charges: int = 0
    transfers: int = 0
    refunds: int = 0
    settlements: int = 0
    settlements_booked: int = 0
    own_funds_booked: int = 0
    in_flight: int = 0
    exceptions: int = 0
    balances: dict[str, int] = field(default_factory=dict)
