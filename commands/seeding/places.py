"""Two campuses of one university, with their halls of residence and pick-up hubs."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from commands.seeding.bulk_copy import copy_rows
from commands.seeding.ids import SeededKind, seeded_id
from sandbox.personas import EMAIL_DOMAIN, MAIN_CAMPUS, SECOND_CAMPUS

CAMPUSES = ((MAIN_CAMPUS, "North Campus"), (SECOND_CAMPUS, "South Campus"))
_EMAIL_DOMAINS = ((EMAIL_DOMAIN, MAIN_CAMPUS), ("south.example.edu", SECOND_CAMPUS))
HOSTELS = {
    MAIN_CAMPUS: ("Amina Hall", "Moremi Hall", "Jaja Hall", "Mariere Hall", "Sodeinde Hall"),
    SECOND_CAMPUS: ("Independence Hall", "Queen Hall", "Zik Hall", "Kuti Hall"),
}
# Name, address, opening hours, latitude, longitude.
_HUBS = {
    MAIN_CAMPUS: (
        ("Library Hub", "Ground floor of the University Library", "Mo-Fr 08:00-20:00; Sa 09:00-17:00"),
        ("Student Union Hub", "Student Union Building, beside the bank", "Mo-Sa 09:00-21:00; Su 13:00-18:00"),
        ("Engineering Gate Hub", "Faculty of Engineering, main gate", "Mo-Fr 07:30-18:30"),
    ),
    SECOND_CAMPUS: (
        ("Medical Village Hub", "College of Medicine, first car park", "Mo-Fr 08:00-19:00; Sa 10:00-16:00"),
        ("South Market Hub", "South Market, row B", "Mo-Sa 08:00-20:00"),
    ),
}
_COORDINATES = {MAIN_CAMPUS: (6.5155, 3.3872), SECOND_CAMPUS: (6.5183, 3.3542)}


def campus_id(slug: str) -> UUID:
    """Give the id of a seeded campus."""
    return seeded_id(SeededKind.CAMPUS, [name for name, _ in CAMPUSES].index(slug) + 1)


def load_places(session: Session, *, now: datetime) -> None:
    """Add campuses, their e-mail domains, hostels and hubs."""
    copy_rows(
        session,
        "campuses",
        ("id", "slug", "name", "created_at"),
        [(campus_id(slug), slug, name, now) for slug, name in CAMPUSES],
    )
    copy_rows(
        session,
        "campus_email_domains",
        ("domain", "campus_id"),
        [(domain, campus_id(slug)) for domain, slug in _EMAIL_DOMAINS],
    )
    hostels = [(slug, name) for slug, names in HOSTELS.items() for name in names]
    copy_rows(
        session,
        "hostels",
        ("id", "campus_id", "name"),
        [
            (seeded_id(SeededKind.HOSTEL, number), campus_id(slug), name)
            for number, (slug, name) in enumerate(hostels, 1)
        ],
    )
    hubs = [(slug, *hub) for slug, hubs_of_campus in _HUBS.items() for hub in hubs_of_campus]
    copy_rows(
        session,
        "hubs",
        ("id", "campus_id", "name", "address", "opening_hours", "latitude", "longitude", "updated_at"),
        [
            (
                seeded_id(SeededKind.HUB, number),
                campus_id(slug),
                name,
                address,
                hours,
                # Some hundred metres from each other around the campus's middle.
                round(_COORDINATES[slug][0] + 0.0013 * number, 6),
                round(_COORDINATES[slug][1] + 0.0009 * number, 6),
                now,
            )
            for number, (slug, name, address, hours) in enumerate(hubs, 1)
        ],
    )
