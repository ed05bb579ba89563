"""Reference data of every installation: staff roles, settings, ledger accounts, synonyms and banned terms."""

from uuid import UUID, uuid5

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "1014"
down_revision = "1013"
branch_labels = None
depends_on = None

_PERMISSIONS = {
    "admin": [
        "canManageOrders",
        "canManageFinances",
        "canManageProducts",
        "canManageVendors",
        "canManageUsers",
        "canManageSupport",
        "canManageDisputes",
        "canManagePlatform",
        "canViewAudit",
    ],
    "finance": ["canManageFinances"],
    "orders": ["canManageOrders"],
    "support": ["canManageSupport", "canManageDisputes"],
    "moderator": ["canManageProducts", "canManageVendors"],
    "compliance": ["canManageCompliance", "canViewAudit"],
    "campus_rep": [],
}

_SETTINGS = {
    "commission_bps": (
        500,
        "The platform's commission on items in basis points, for categories without a commission",
    ),
    "service_fee_minor": (10_000, "The service fee of an order, in kobo"),
    "delivery_fee_minor": (50_000, "The delivery fee of a delivered order, in kobo"),
    "minimum_payout_minor": (100_000, "The minimum payout of a vendor or a wallet, in kobo"),
}

# A copy of the namespace of marketplace.ledger.accounts, because migrations must not change with the code.
_NAMESPACE = UUID("5f0c2a44-5d0f-4b0e-9a51-6c1d7e8f9a10")
_ACCOUNTS = {
    "gateway_clearing": "debit",
    "bank": "debit",
    "gateway_fees": "debit",
    "escrow": "credit",
    "platform_revenue": "credit",
    "refunds_in_transit": "credit",
    "payouts_in_transit": "credit",
    "quarantine": "credit",
    "rewards": "credit",
    "lost_disputes": "debit",
    "own_funds": "credit",
}

# Synonyms on a Nigerian campus. Staff may change the list.
_SYNONYMS = (
    ("keke", "keke napep", "tricycle"),
    ("okada", "motorcycle", "motorbike"),
    ("hostel", "hall", "hostel room", "dormitory"),
    ("iphone charger", "iphone cable", "lightning cable"),
    ("charger", "charging cable", "adapter"),
    ("type c", "usb c"),
    ("textbook", "course book", "coursebook"),
    ("past question", "past questions", "pq"),
    ("gst", "general studies"),
    ("laptop", "notebook computer"),
    ("phone", "mobile phone", "handset", "smartphone"),
    ("power bank", "powerbank", "portable charger"),
    ("okrika", "thrift", "fairly used", "second hand", "bend down select"),
    ("gen", "generator"),
    ("gas cooker", "gas stove", "camp gas"),
    ("hot plate", "electric cooker", "electric stove"),
    ("flash drive", "usb stick", "pen drive", "memory stick"),
    ("hard drive", "hard disk", "hdd"),
    ("earbuds", "earpods", "airpods", "ear buds", "earphones"),
    ("headphones", "headset"),
    ("speaker", "bluetooth speaker", "sound box"),
    ("phone pouch", "phone case", "phone cover"),
    ("screen guard", "screen protector", "tempered glass"),
    ("extension box", "extension cord", "power strip", "surge protector"),
    ("fridge", "refrigerator", "freezer"),
    ("pressing iron", "electric iron", "cloth iron"),
    ("mattress", "foam"),
    ("bedsheet", "bed sheet", "bedspread", "duvet"),
    ("mosquito net", "bed net"),
    ("lab coat", "laboratory coat", "ward coat"),
    ("sneakers", "trainers", "canvas shoes", "kicks"),
    ("slippers", "slides", "sandals"),
    ("trousers", "pants"),
    ("gown", "dress"),
    ("kaftan", "caftan", "senator wear"),
    ("wig", "human hair", "braids"),
    ("attachment", "hair extension", "hair extensions"),
    ("perfume", "fragrance", "cologne"),
    ("sunscreen", "sun cream"),
    ("noodles", "indomie"),
    ("garri", "gari", "eba"),
    ("provisions", "foodstuff", "groceries"),
    ("soft drink", "mineral", "minerals"),
    ("jersey", "football shirt"),
    ("bicycle", "bike"),
    ("television", "tv"),
    ("playstation 4", "ps4"),
    ("playstation 5", "ps5"),
)

# Banned terms with their harmless phrases, as folded by the screening.
_BANNED = {
    "weapon": {
        "gun": (
            "glue gun", "nail gun", "heat gun", "spray gun", "massage gun", "staple gun", "water gun",
            "toy gun", "nerf gun", "price gun", "top gun", "gun metal", "gun n rose", "gun and rose",
        ),
        "pistol": ("water pistol", "toy pistol"),
        "revolver": (),
        "rifle": (),
        "shotgun": (),
        "firearm": (),
        "ammunition": (),
        "live bullet": (),
        "machine gun": (),
        "stun gun": (),
        "taser": (),
        "tear gas": (),
        "grenade": (),
        "explosive": ("explosive sound", "explosive bass"),
        "dynamite": (),
        "dagger": (),
        "switchblade": (),
        "flick knife": (),
        "butterfly knife": (),
        "brass knuckle": (),
        "knuckle duster": (),
    },
    "drug": {
        "cocaine": (),
        "heroin": (),
        "cannabis": (),
        "marijuana": (),
        "indian hemp": (),
        "weed": ("weed killer", "weed eater", "weed control", "weed remover"),
        "methamphetamine": (),
        "crystal meth": (),
        "mkpuru mmiri": (),
        "ecstasy": (),
        "lsd": (),
        "shisha": (),
        "hookah": (),
    },
    "medicine": {
        "tramadol": (),
        "tramol": (),
        "codeine": (),
        "rohypnol": (),
        "refnol": (),
        "pentazocine": (),
        "diazepam": (),
        "misoprostol": (),
        "cytotec": (),
        "abortion pill": (),
    },
    "exam_malpractice": {
        "exam runz": (),
        "expo runz": (),
        "exam expo": (),
        "jamb expo": (),
        "waec expo": (),
        "neco expo": (),
        "exam mercenary": (),
        "exam leak": (),
        "leaked exam": (),
        "leaked question": (),
        "exam impersonation": (),
        "write your exam": (),
        "sit your exam": (),
        "write exam for you": (),
        "result upgrade": (),
        "upgrade your result": (),
    },
    "forgery": {
        "fake id": (),
        "fake certificate": (),
        "fake naira": (),
        "fake currency": (),
        "forged": ("forged steel", "forged carbon", "forged wheel", "drop forged"),
        "counterfeit": (
            "counterfeit detector", "counterfeit money detector", "not counterfeit", "no counterfeit", "anti counterfeit",
        ),
        "cloned card": (),
        "cloned atm": (),
        "bank log": (),
        "yahoo format": (),
        "stolen": ("not stolen", "never stolen"),
    },
    "adult": {
        "porn": (),
        "pornography": (),
        "sex toy": (),
        "dildo": (),
        "nude picture": (),
        "nude photo": (),
        "escort service": (),
        "sex worker": (),
    },
    "alcohol_tobacco": {
        "cigarette": ("cigarette lighter",),
        "tobacco": ("tobacco vanille", "tobacco oud", "tobacco scent"),
        "vape": (),
        "vodka": (),
        "ogogoro": (),
        "whiskey": ("whiskey glass",),
        "whisky": ("whisky glass",),
    },
    "wildlife": {"pangolin": (), "elephant tusk": (), "raw ivory": ()},
}  # fmt: skip


def upgrade() -> None:
    """Insert the reference data."""
    _insert(
        "admin_roles",
        {"role": sa.Text(), "permissions": sa.ARRAY(sa.Text())},
        [{"role": role, "permissions": permissions} for role, permissions in _PERMISSIONS.items()],
    )
    _insert(
        "platform_settings",
        {"key": sa.Text(), "value": postgresql.JSONB(), "description": sa.Text()},
        [{"key": key, "value": value, "description": text} for key, (value, text) in _SETTINGS.items()],
    )
    _insert(
        "ledger_accounts",
        {"id": sa.Uuid(), "kind": sa.Text(), "normal_side": sa.Text()},
        [
            {"id": uuid5(_NAMESPACE, kind), "kind": kind, "normal_side": side}
            for kind, side in _ACCOUNTS.items()
        ],
    )
    _insert(
        "search_synonyms", {"terms": sa.ARRAY(sa.Text())}, [{"terms": list(terms)} for terms in _SYNONYMS]
    )
    _insert(
        "banned_terms",
        {"term": sa.Text(), "category": sa.Text(), "exceptions": sa.ARRAY(sa.Text())},
        [
            {"term": term, "category": category, "exceptions": list(exceptions)}
            for category, terms in _BANNED.items()
            for term, exceptions in terms.items()
        ],
    )


def _insert(
    table: str, columns: dict[str, sa.types.TypeEngine[object]], rows: list[dict[str, object]]
) -> None:
    op.bulk_insert(sa.table(table, *(sa.column(name, type_) for name, type_ in columns.items())), rows)


def downgrade() -> None:
    """Delete all rows of these tables. Rows that other rows refer to stop the downgrade."""
    for table in ("banned_terms", "search_synonyms", "ledger_accounts", "platform_settings", "admin_roles"):
        op.execute(f"DELETE FROM {table}")
