"""Listings held for staff, what may not be sold, and the feed of notifications."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_IN_MODERATION = "status IN ('in_review', 'rejected', 'removed')"

# Term, and phrases in which it is harmless. As the screening folds words: lower case, without accents, singular.
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
    """Change the schema and insert what may not be sold."""
    _change_products()
    op.create_table(
        "notifications",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("link", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=False, comment="One cause notifies a person once"),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("read_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["profiles.id"], name=op.f("fk_notifications_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notifications")),
        sa.UniqueConstraint("user_id", "cause", name=op.f("uq_notifications_user_id_cause")),
    )
    op.create_index("ix_notifications_feed", "notifications", ["user_id", sa.literal_column("id DESC")])
    banned = op.create_table(
        "banned_terms",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("term", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("exceptions", sa.ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("created_by", sa.Uuid(), nullable=True),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "category IN ('weapon', 'drug', 'medicine', 'exam_malpractice', 'forgery', 'adult',"
            " 'alcohol_tobacco', 'wildlife', 'other')",
            name=op.f("ck_banned_terms_category"),
        ),
        sa.ForeignKeyConstraint(["created_by"], ["profiles.id"], name=op.f("fk_banned_terms_created_by")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_banned_terms")),
        sa.UniqueConstraint("term", name=op.f("uq_banned_terms_term")),
    )
    op.bulk_insert(
        banned,
        [
            {"term": term, "category": category, "exceptions": list(exceptions)}
            for category, terms in _BANNED.items()
            for term, exceptions in terms.items()
        ],
    )


def _change_products() -> None:
    op.add_column(
        "products",
        sa.Column(
            "review_round",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Goes up each time the listing is handed to the screening: answers of earlier rounds are dropped",
        ),
    )
    op.add_column(
        "products",
        sa.Column(
            "held",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="In review: whether it waits for staff, the screening being over",
        ),
    )
    op.add_column(
        "products",
        sa.Column(
            "needs_staff",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Staff rejected or removed it: the screening alone does not publish it again",
        ),
    )
    op.add_column(
        "products", sa.Column("review_reasons", sa.ARRAY(sa.Text()), server_default="{}", nullable=False)
    )
    op.add_column(
        "products",
        sa.Column(
            "moderated_at",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Since when its moderation stands as it does: submitted, held, rejected, removed or approved",
        ),
    )
    op.execute(f"UPDATE products SET moderated_at = updated_at WHERE {_IN_MODERATION}")
    op.execute("UPDATE products SET needs_staff = true WHERE status = 'removed'")
    op.create_check_constraint(op.f("ck_products_held"), "products", "NOT held OR status = 'in_review'")
    op.create_index(
        "ix_products_moderation",
        "products",
        ["status", "held", "moderated_at", "id"],
        postgresql_where=sa.text(_IN_MODERATION),
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("banned_terms")
    op.drop_table("notifications")
    op.drop_index("ix_products_moderation", "products")
    op.drop_constraint(op.f("ck_products_held"), "products")
    for column in ("moderated_at", "review_reasons", "needs_staff", "held", "review_round"):
        op.drop_column("products", column)
