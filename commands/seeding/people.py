"""Two campuses of a university with halls and pickup hubs, the personas, further students, and the stores."""

import random
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from uuid import UUID

import orjson
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from commands.seeding.categories import ROOT_NAMES
from commands.seeding.loading import copy_rows, load_data
from marketplace.identity.models import CONTACT, CONTACT_INDEX
from marketplace.kernel import demo_ids
from marketplace.kernel.demo_ids import SeededKind, seeded_id
from marketplace.kernel.opening_hours import DAYS, LAGOS, WeeklyHours
from marketplace.notifications.models import Notification, UserDevice
from marketplace.payouts.models import PayoutAccount
from marketplace.platform.campuses.hubs import format_hours
from sandbox.personas import EMAIL_DOMAIN, MAIN_CAMPUS, PERSONAS, SECOND_CAMPUS, STORE_NAMES, persona_named

LOAD_VENDORS = 200
STUDENTS = 6
_MEMBERSHIP_AGE = timedelta(days=120)
_STATUS_REASONS = {"restricted": "Under review by support", "suspended": "Repeated counterfeit listings"}
_BADGES = {"buyer": ["verified_student"], "vendor": ["verified_student", "verified_vendor"], "staff": []}


@dataclass(frozen=True)
class OpeningData:
    """Opening hours of some days of the week."""

    days: tuple[str, ...]
    opens: str
    closes: str


@dataclass(frozen=True)
class HubData:
    """A hub for picking up orders."""

    name: str
    address: str
    opening_hours: tuple[OpeningData, ...]

    @property
    def weekly_hours(self) -> WeeklyHours:
        """The opening hours of the week."""
        return WeeklyHours.parse(
            {"day": day, "opens": opening.opens, "closes": opening.closes}
            for opening in self.opening_hours
            for day in opening.days
        )


@dataclass(frozen=True)
class CampusData:
    """A campus. The coordinates of its centre are in degrees."""

    slug: str
    name: str
    email_domain: str
    latitude: float
    longitude: float
    hostels: tuple[str, ...]
    hubs: tuple[HubData, ...]


CAMPUSES = {campus.slug: campus for campus in load_data("campuses", tuple[CampusData, ...])}


def campus_id(slug: str) -> UUID:
    """Return the id of a seeded campus."""
    return seeded_id(SeededKind.CAMPUS, list(CAMPUSES).index(slug) + 1)


@dataclass(frozen=True)
class StoreData:
    """A store of the demo. ``sells`` names root categories. A persona's store has the persona's store name."""

    campus: str
    sells: tuple[str, ...]
    name: str | None = None
    persona: str | None = None


@dataclass(frozen=True)
class BankData:
    """A Nigerian bank that the sandbox gateway also knows."""

    code: str
    name: str


@dataclass(frozen=True)
class PeopleData:
    """The content of ``people.json``."""

    first_names: tuple[str, ...]
    last_names: tuple[str, ...]
    stores: tuple[StoreData, ...]
    banks: tuple[BankData, ...]


_DATA = load_data("people", PeopleData)
DEMO_VENDORS = len(_DATA.stores)
_STORE_HOURS = WeeklyHours.parse(
    [{"day": day, "opens": "08:00", "closes": "20:00"} for day in DAYS[:5]]
    + [{"day": "saturday", "opens": "10:00", "closes": "16:00"}]
)


@dataclass(frozen=True)
class SeededStore:
    """A store. ``roots`` holds the positions of the root categories of its products."""

    number: int
    id: UUID
    user_id: UUID
    owner: str
    name: str
    slug: str
    campus: str
    roots: frozenset[int]


def _person_name(number: int) -> str:
    # The lengths of the lists (23 and 20) have no common divisor, so 460 numbers give 460 names.
    first, last = _DATA.first_names, _DATA.last_names
    return f"{first[number % len(first)]} {last[number % len(last)]}"


def _build_store(number: int) -> SeededStore:
    """Describe a store. Stores with numbers above the demo's are for load tests and sell everything."""
    if number <= DEMO_VENDORS:
        data = _DATA.stores[number - 1]
    else:
        campus = MAIN_CAMPUS if number % 3 else SECOND_CAMPUS
        data = StoreData(campus, ROOT_NAMES, name=f"{_person_name(number)} Store {number}")
    persona = persona_named(data.persona) if data.persona else None
    name = data.name or STORE_NAMES[data.persona or ""]
    return SeededStore(
        number=number,
        id=seeded_id(SeededKind.VENDOR, number),
        user_id=persona.user_id if persona else seeded_id(SeededKind.PERSON, 1_000 + number),
        owner=persona.full_name if persona else _person_name(number),
        name=name,
        slug="-".join("".join(c if c.isalnum() else " " for c in name.lower()).split()),
        campus=data.campus,
        roots=frozenset(ROOT_NAMES.index(root) for root in data.sells),
    )


STORES: tuple[SeededStore, ...] = tuple(_build_store(number) for number in range(1, LOAD_VENDORS + 1))


def student_id(number: int) -> UUID:
    """Return the id of a further student, numbered from 1 to STUDENTS."""
    return seeded_id(SeededKind.PERSON, number)


def load_people(session: Session, *, vendors: int, now: datetime) -> None:
    """Add the campuses, the personas with profiles, students, store owners, stores, bank accounts and addresses.

    :param vendors: number of stores
    :param now: time from which ages are calculated
    """
    _load_campuses(session, now=now)
    _load_holidays(session, now=now)
    _load_profiles(session, vendors=vendors, now=now)
    _load_account_decisions(session, now=now)
    _load_device(session, now=now)
    _load_notification(session, now=now)
    _load_shifts(session, now=now)
    _load_stores(session, vendors=vendors, now=now)
    _load_payout_accounts(session, vendors=vendors, now=now)
    _load_addresses(session, now=now)


def _load_campuses(session: Session, *, now: datetime) -> None:
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
        (
            "id",
            "campus_id",
            "name",
            "address",
            "opening_hours",
            "weekly_hours",
            "latitude",
            "longitude",
            "updated_at",
        ),
        [
            (
                *(seeded_id(SeededKind.HUB, number), campus_id(campus.slug)),
                *(hub.name, hub.address, format_hours(hub.weekly_hours)),
                orjson.dumps(hub.weekly_hours.to_json()).decode(),
                # Some hundred metres apart, near the centre of the campus.
                round(campus.latitude + 0.0013 * number, 6),
                round(campus.longitude + 0.0009 * number, 6),
                now,
            )
            for number, (campus, hub) in enumerate(hubs, 1)
        ],
    )


def _load_holidays(session: Session, *, now: datetime) -> None:
    """Add a public holiday of next year for all campuses."""
    copy_rows(
        session,
        "public_holidays",
        ("id", "date", "name", "created_at", "updated_at"),
        [
            (
                seeded_id(SeededKind.PUBLIC_HOLIDAY, 1),
                date(now.astimezone(LAGOS).year + 1, 10, 1),
                *("Independence Day", now, now),
            )
        ],
    )


def _load_shifts(session: Session, *, now: datetime) -> None:
    """Let the campus representative be at the first hub every workday morning, and at the second on Saturday."""
    rep = persona_named("campus-rep")
    shifts = [*((1, weekday, 9 * 60, 13 * 60) for weekday in range(5)), (2, 5, 10 * 60, 14 * 60)]
    copy_rows(
        session,
        "rep_shifts",
        ("id", "user_id", "hub_id", "weekday", "starts_minute", "ends_minute", "created_at", "updated_at"),
        [
            (
                *(seeded_id(SeededKind.REP_SHIFT, number), rep.user_id, seeded_id(SeededKind.HUB, hub)),
                *(weekday, starts, ends, now, now),
            )
            for number, (hub, weekday, starts, ends) in enumerate(shifts, 1)
        ],
    )


def _encrypted_phone(phone: str) -> tuple[str, bytes]:
    """Return a number as COPY stores the number: encrypted, and the index."""
    return CONTACT.encrypt(phone), CONTACT_INDEX.compute(phone)


def _load_profiles(session: Session, *, vendors: int, now: datetime) -> None:
    since = now - _MEMBERSHIP_AGE
    rows: list[tuple[object, ...]] = [
        (
            *(persona.user_id, persona.email, persona.full_name, campus_id(persona.campus)),
            *_encrypted_phone(persona.phone),
            *(persona.role, persona.staff_role, persona.account_status),
            *(_STATUS_REASONS.get(persona.account_status), _BADGES[persona.role], since, since),
            since if persona.role == "vendor" or persona.name == "buyer2" else None,
            "pending" if persona.account_status == "suspended" else None,
        )
        for persona in PERSONAS
        if persona.has_profile
    ]
    students = [
        (student_id(number), f"student{number}", _person_name(number), "buyer", campus_id(MAIN_CAMPUS))
        for number in range(1, STUDENTS + 1)
    ]
    owners = [
        (store.user_id, f"store{store.number}", store.owner, "vendor", campus_id(store.campus))
        for store in STORES[2:vendors]
    ]
    rows += [
        (
            *(user_id, f"{mailbox}@{EMAIL_DOMAIN}", name, campus, *_encrypted_phone(f"+234701{index:07d}")),
            *(
                role,
                None,
                "active",
                None,
                _BADGES[role],
                since,
                since,
                since if role == "vendor" else None,
                None,
            ),
        )
        for index, (user_id, mailbox, name, role, campus) in enumerate([*students, *owners], 1)
    ]
    copy_rows(
        session,
        "profiles",
        (
            *(
                "id",
                "email",
                "name",
                "campus_id",
                "phone",
                "phone_index",
                "role",
                "staff_role",
                "account_status",
            ),
            *("status_reason", "badges", "created_at", "updated_at", "phone_verified_at", "appeal_status"),
        ),
        rows,
    )


def _load_account_decisions(session: Session, *, now: datetime) -> None:
    """Add the decisions about the restricted and the suspended persona, and an appeal of the latter."""
    officer, decided_at = persona_named("admin2").user_id, now - timedelta(days=3)
    barred = [persona for persona in PERSONAS if persona.account_status != "active"]
    copy_rows(
        session,
        "account_decisions",
        ("id", "user_id", "status", "reason", "decided_by", "decided_at"),
        [
            (
                *(seeded_id(SeededKind.ACCOUNT_DECISION, number), persona.user_id, persona.account_status),
                *(_STATUS_REASONS[persona.account_status], officer, decided_at),
            )
            for number, persona in enumerate(barred, 1)
        ],
    )
    number = [persona.account_status for persona in barred].index("suspended") + 1
    copy_rows(
        session,
        "account_appeals",
        ("id", "decision_id", "text", "created_at"),
        [
            (
                *(demo_ids.APPEAL, seeded_id(SeededKind.ACCOUNT_DECISION, number)),
                *("I have the receipts of all phones that I sold.", decided_at + timedelta(days=1)),
            )
        ],
    )


def _load_device(session: Session, *, now: datetime) -> None:
    """Add a native app of the buyer."""
    if session.get(UserDevice, demo_ids.DEVICE) is None:
        token = f"demo:{demo_ids.DEVICE}"
        session.add(
            UserDevice(
                id=demo_ids.DEVICE,
                user_id=demo_ids.BUYER,
                kind="fcm",
                name="Amara\u2019s phone",
                token=token,
                token_index=f"fcm:{token}",
                created_at=now,
                last_seen_at=now,
            )
        )


def _load_notification(session: Session, *, now: datetime) -> None:
    """Add a welcome in the feed of the buyer."""
    if session.get(Notification, demo_ids.NOTIFICATION) is None:
        session.add(
            Notification(
                id=demo_ids.NOTIFICATION,
                user_id=demo_ids.BUYER,
                type="welcome",
                title="Welcome to the campus marketplace",
                body="Your payments are held until you have received your orders.",
                link="/products",
                cause="welcome",
                created_at=now,
            )
        )


def _load_stores(session: Session, *, vendors: int, now: datetime) -> None:
    since = now - _MEMBERSHIP_AGE
    # Every fourth store has no known hours.
    hours = orjson.dumps(_STORE_HOURS.to_json()).decode()
    copy_rows(
        session,
        "vendor_profiles",
        (
            *("id", "user_id", "campus_id", "display_name", "slug", "description", "verified", "status"),
            *("created_at", "updated_at", "weekly_hours"),
        ),
        [
            (
                *(store.id, store.user_id, campus_id(store.campus), store.name, store.slug),
                f"{store.owner} sells on {store.campus.title()} Campus. Orders before noon go out the same day.",
                *(True, "active", since, since, None if store.number % 4 == 0 else hours),
            )
            for store in STORES[:vendors]
        ],
    )


def _load_payout_accounts(session: Session, *, vendors: int, now: datetime) -> None:
    buyer = persona_named("buyer")
    holders = [(store.number, store.user_id, store.owner) for store in STORES[:vendors]]
    rows = []
    for number, user_id, name in [*holders, (LOAD_VENDORS + 1, buyer.user_id, buyer.full_name)]:
        chance = random.Random(f"store:{number}")  # noqa: S311 - reproducible on purpose
        bank = chance.choice(_DATA.banks)
        rows.append(
            {
                "id": seeded_id(SeededKind.PAYOUT_ACCOUNT, number),
                "user_id": user_id,
                "bank_code": bank.code,
                "bank_name": bank.name,
                "account_number": f"{chance.randrange(10**9, 10**10)}",
                "account_name": name.upper(),
                # A new bank account holds payouts for a day, which this account has long passed.
                "created_at": now - timedelta(days=90),
            }
        )
    session.execute(insert(PayoutAccount).on_conflict_do_nothing(), rows)


def _load_addresses(session: Session, *, now: datetime) -> None:
    since = now - _MEMBERSHIP_AGE
    halls = CAMPUSES[MAIN_CAMPUS].hostels
    buyers = map(persona_named, ("buyer", "buyer2"))
    homes = [
        *((person.user_id, person.phone) for person in buyers),
        *((student_id(number), f"+234701{number:07d}") for number in range(1, STUDENTS + 1)),
    ]
    copy_rows(
        session,
        "addresses",
        (
            *("id", "user_id", "label", "hostel", "hall", "room_number", "instructions", "phone"),
            *("is_default", "created_at", "updated_at"),
        ),
        [
            (
                *(seeded_id(SeededKind.ADDRESS, number), user_id, "My room", halls[number % len(halls)]),
                *("Block " + "ABCD"[number % 4], f"{100 + 7 * number}", "Call at the porter's lodge"),
                *(CONTACT.encrypt(phone), True, since, since),
            )
            for number, (user_id, phone) in enumerate(homes, 1)
        ],
    )
