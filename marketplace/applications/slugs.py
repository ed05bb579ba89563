"""Slugs of stores: format, reserved words, and slugs that look like the slug of another store.

Two slugs look alike if they have the same key: the database function ``store_slug_key`` folds similar characters and
removes hyphens. Stores and open applications each have a unique index of the key.
"""

import re
from typing import Literal

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.applications import texts
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.errors import ConflictError

SlugFault = Literal["format", "reserved", "taken"]
SLUG_FAULTS: tuple[SlugFault, ...] = ("format", "reserved", "taken")
SLUG_TEXTS: dict[SlugFault, str] = {
    "format": texts.SLUG_FORMAT,
    "reserved": texts.SLUG_RESERVED,
    "taken": texts.SLUG_TAKEN,
}
MAX_LENGTH = 40
_FORMAT = re.compile(r"[a-z0-9][a-z0-9-]{1,38}[a-z0-9]", re.ASCII)
# Words of routes, of the platform and of staff, which a store could abuse.
_RESERVED = frozenset(
    """
    about account accounts admin administrator api app apply applications auth bank billing blog buyer campus campuses
    cart categories category checkout contact dashboard delivery dispute disputes docs escrow faq favorites finance
    health help home hub hubs legal login logout mail marketplace me media messages metrics moderator new notifications
    null official openapi order orders owner pay payment payments payout payouts pin platform policy privacy product
    products profile refund refunds report reports review reviews root sale sales search security seller settings shop
    shops signin signup staff static status store stores student students support system team terms test trending
    undefined university user users vendor vendors verified verify vibes wallet webhook webhooks whatsapp www
    """.split()  # noqa: SIM905 - a list of so many quoted words reads worse
)
# A constraint that a lost race for a slug violates.
SLUG_CONSTRAINTS = frozenset(
    {"uq_vendor_profiles_slug", "uq_vendor_profiles_slug_key", "uq_vendor_applications_slug"}
)


class SlugUnavailableError(ConflictError):
    """Another store or application has taken the slug in the meantime."""

    reason = "slug-unavailable"


_SELECT_TAKEN = Prepared(
    text(
        """
        SELECT EXISTS (SELECT FROM vendor_profiles WHERE store_slug_key(slug) = store_slug_key(:slug))
            OR EXISTS (SELECT FROM vendor_applications WHERE store_slug_key(slug) = store_slug_key(:slug)
                AND status IN ('submitted', 'under_review', 'needs_info'))
        """
    )
)


def find_slug_fault(session: Session, *, slug: str) -> SlugFault | None:
    """Return why a slug cannot be used, or None."""
    if not _FORMAT.fullmatch(slug) or "--" in slug:
        return "format"
    if slug.replace("-", "") in _RESERVED or set(slug.split("-")) & _BRAND_WORDS:
        return "reserved"
    return "taken" if _SELECT_TAKEN.scalar(session, slug=slug) else None


# Words that must not be a part of a slug either, because buyers would take the store for the platform.
_BRAND_WORDS = frozenset({"admin", "escrow", "official", "staff", "support", "verified"})

# Stores and applications have an index each, so applicants and approvals of a slug run one after the other.
_LOCK_SLUG = Statement(
    text("SELECT pg_advisory_xact_lock(hashtextextended('slug:' || store_slug_key(:slug), 0))")
)


def lock_slug(session: Session, *, slug: str) -> None:
    """Lock a slug, and all slugs that look like the slug, until the end of the transaction."""
    _LOCK_SLUG.first(session, slug=slug)
