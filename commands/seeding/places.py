"""Two campuses of one university, with their halls of residence and pick-up hubs."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from commands.seeding.bulk_copy import copy_rows
from commands.seeding.data_files import load_data
from commands.seeding.ids import SeededKind, seeded_id


@dataclass(frozen=True)
class HubData:
    """A hub where orders are picked up."""

    name: str
    address: str
    opening_hours: str


@dataclass(frozen=True)
class CampusData:
    """A campus; its coordinates are those of its middle, in degrees."""

    slug: str
    name: str
    email_domain: str
    latitude: float
    longitude: float
    hostels: tuple[str, ...]
    hubs: tuple[HubData, ...]


CAMPUSES = {campus.slug: campus for campus in load_data("campuses", tuple[CampusData, ...])}


def campus_id(slug: str) -> UUID:
    """Give the id of a seeded campus."""
    return seeded_id(SeededKind.CAMPUS, list(CAMPUSES).index(slug) + 1)


def load_places(session: Session, *, now: datetime) -> None:
    """Add campuses, their e-mail domains, hostels and hubs."""
    copy_rows(
        session,
        "campuses",
        ("id", "slug", "name", "created_at"),
        [(campus_id(slug), slug, campus.name, now) for slug, campus in CAMPUSES.items()],
    )
    copy_rows(
        session,
        "campus_email_domains",
        ("domain", "campus_id"),
        [(campus.email_domain, campus_id(slug)) for slug, campus in CAMPUSES.items()],
    )
    hostels = [(slug, name) for slug, campus in CAMPUSES.items() for name in campus.hostels]
    copy_rows(
        session,
        "hostels",
        ("id", "campus_id", "name"),
        [
            (seeded_id(SeededKind.HOSTEL, number), campus_id(slug), name)
            for number, (slug, name) in enumerate(hostels, 1)
        ],
    )
    hubs = [(campus, hub) for campus in CAMPUSES.values() for hub in campus.hubs]
    copy_rows(
        session,
        "hubs",
        ("id", "campus_id", "name", "address", "opening_hours", "latitude", "longitude", "updated_at"),
        [
            (
                *(seeded_id(SeededKind.HUB, number), campus_id(campus.slug)),
                *(hub.name, hub.address, hub.opening_hours),
                # Some hundred metres from each other around the campus's middle.
                round(campus.latitude + 0.0013 * number, 6),
                round(campus.longitude + 0.0009 * number, 6),
                now,
            )
            for number, (campus, hub) in enumerate(hubs, 1)
        ],
    )
