"""The personas of the demo. The sandbox issues tokens for personas, and the seed creates their rows.

This module is pure data with fixed ids, so that the sandbox and the seed agree without communication.
"""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from marketplace.kernel.demo_ids import persona_id

Role = Literal["buyer", "vendor", "staff"]
StaffRole = Literal["admin", "finance", "orders", "support", "moderator", "compliance", "campus_rep"]
AccountStatus = Literal["active", "restricted", "suspended"]

EMAIL_DOMAIN = "north.example.edu"
MAIN_CAMPUS = "north"
SECOND_CAMPUS = "south"
# The stores of the vendor personas, as named by the seed.
STORE_NAMES = {"vendor": "Ngozi Books & Gadgets", "vendor2": "Ibro Styles"}


class UnknownPersonaError(LookupError):
    """No persona has the given name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown persona {name!r}; choose from {', '.join(persona_names())}")


@dataclass(frozen=True, kw_only=True)
class Persona:
    """A person of the demo.

    :param user_id: the ``sub`` of the person's tokens
    :param campus: slug of the campus, ``north`` for every persona
    :param has_profile: false for a persona who has a token but is unknown to the service
    """

    name: str
    user_id: UUID
    email: str
    full_name: str
    phone: str
    role: Role
    staff_role: StaffRole | None
    account_status: AccountStatus
    has_profile: bool
    campus: str


def _persona(
    number: int,
    name: str,
    full_name: str,
    *,
    role: Role = "staff",
    staff_role: StaffRole | None = None,
    account_status: AccountStatus = "active",
    has_profile: bool = True,
) -> Persona:
    return Persona(
        name=name,
        user_id=persona_id(number),
        email=f"{name}@{EMAIL_DOMAIN}",
        full_name=full_name,
        phone=f"+234803{number:07d}",
        role=role,
        staff_role=staff_role,
        account_status=account_status,
        has_profile=has_profile,
        campus=MAIN_CAMPUS,
    )


PERSONAS: tuple[Persona, ...] = (
    _persona(1, "buyer", "Amara Okafor", role="buyer"),
    _persona(2, "buyer2", "Tunde Bello", role="buyer"),
    _persona(3, "vendor", "Ngozi Adeyemi", role="vendor"),
    _persona(4, "vendor2", "Ibrahim Musa", role="vendor"),
    _persona(5, "admin", "Folake Balogun", staff_role="admin"),
    _persona(6, "admin2", "Chidi Eze", staff_role="admin"),
    _persona(7, "finance", "Zainab Lawal", staff_role="finance"),
    _persona(8, "finance2", "Emeka Nwosu", staff_role="finance"),
    _persona(9, "orders", "Halima Sani", staff_role="orders"),
    _persona(10, "support", "Bola Akinde", staff_role="support"),
    _persona(11, "moderator", "Kemi Oladipo", staff_role="moderator"),
    _persona(12, "compliance", "Uche Obi", staff_role="compliance"),
    _persona(13, "campus-rep", "Sade Martins", staff_role="campus_rep"),
    _persona(14, "restricted", "Femi Alabi", role="buyer", account_status="restricted"),
    _persona(15, "suspended", "Yusuf Danjuma", role="buyer", account_status="suspended"),
    _persona(16, "nobody", "Ada Nobody", role="buyer", has_profile=False),
)


def persona_names() -> list[str]:
    """List the names of all personas in the order of definition."""
    return [persona.name for persona in PERSONAS]


def persona_named(name: str) -> Persona:
    """Find a persona by name.

    :param name: such as ``buyer`` or ``campus-rep``
    :raises UnknownPersonaError: no persona has this name; the message lists all names
    """
    for persona in PERSONAS:
        if persona.name == name:
            return persona
    raise UnknownPersonaError(name)
