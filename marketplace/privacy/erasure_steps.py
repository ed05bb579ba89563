"""The steps of an erasure, in order: rows to delete, and columns to clear.

Every step can be repeated. Rows go before the rows that they refer to. The profile itself is cleared at the start, see
``erasure``. Files have steps of their own, see ``erased_files``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, func, literal_column

from marketplace.privacy.register import PERSONAL_TABLES

DELETED_TEXT = "Deleted"
_OWN = "t.user_id = :user_id"
_OWN_STORES = "SELECT v.id FROM vendor_profiles v WHERE v.user_id = :user_id"
_OWN_CONTACTS = "SELECT c.id FROM support_contacts c WHERE c.profile_id = :user_id"
_OWN_TICKETS = (
    f"SELECT s.id FROM support_tickets s WHERE s.creator_id = :user_id OR s.contact_id IN ({_OWN_CONTACTS})"
)
_OWN_MESSAGES = """(
    t.sender = 'buyer' AND t.conversation_id IN (SELECT c.id FROM conversations c WHERE c.buyer_id = :user_id)
    OR t.sender = 'vendor' AND t.conversation_id IN (SELECT c.id FROM conversations c WHERE c.seller_id = :user_id))"""
# Notifications to the other side of a conversation have the name of the person in their title.
_ABOUT_OWN_MESSAGES = """
    t.user_id IN (SELECT CASE c.buyer_id WHEN :user_id THEN c.seller_id ELSE c.buyer_id END
        FROM conversations c WHERE c.buyer_id = :user_id OR c.seller_id = :user_id)
    AND t.link IN (SELECT '/conversations/' || c.id
        FROM conversations c WHERE c.buyer_id = :user_id OR c.seller_id = :user_id)"""


@dataclass(frozen=True)
class DeleteRows:
    """A step that deletes rows.

    :ivar where: the SQL condition on the alias ``t``; none for all rows of the person
    """

    table: str
    where: str | None = None

    @property
    def name(self) -> str:
        """The name in the progress of an erasure."""
        return f"delete {self.table}"

    @property
    def condition(self) -> str:
        """The SQL condition for the rows."""
        return self.where or PERSONAL_TABLES[self.table].subject


@dataclass(frozen=True)
class ClearColumns:
    """A step that replaces values and keeps the rows.

    :ivar values: the new values by column: Python values or SQL expressions
    :ivar where: the SQL condition on the alias ``t``; none for all rows of the person
    :ivar unless_equal: the columns that tell whether a row is cleared already; none for all cleared columns.
        Encrypted columns cannot be compared
    """

    table: str
    values: Mapping[str, Any]
    where: str | None = None
    unless_equal: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """The name in the progress of an erasure."""
        return f"clear {self.table} {' '.join(sorted(self.values))}"

    @property
    def condition(self) -> str:
        """The SQL condition for the rows, cleared or not."""
        return self.where or PERSONAL_TABLES[self.table].subject

    @property
    def compared(self) -> tuple[str, ...]:
        """The columns that differ in rows that are not cleared yet."""
        return self.unless_equal or tuple(self.values)


_DELETED_SLUG: ColumnElement[str] = literal_column("'deleted-' || replace(id::text, '-', '')")
_NOW: ColumnElement[Any] = literal_column("now()")

STEPS: tuple[DeleteRows | ClearColumns, ...] = (
    # Messages of the service
    DeleteRows("notification_delivery_logs"),
    DeleteRows("notifications"),
    ClearColumns("notifications", {"title": DELETED_TEXT}, where=_ABOUT_OWN_MESSAGES),
    DeleteRows("former_contacts"),
    DeleteRows("user_devices"),
    # Profile
    DeleteRows("phone_codes"),
    DeleteRows("addresses"),
    DeleteRows("favorites"),
    DeleteRows("cart_items"),
    DeleteRows("store_day_buyers"),
    ClearColumns("deletion_requests", {"reason": None}),
    # Assistant
    DeleteRows("assistant_messages"),
    DeleteRows("assistant_threads"),
    DeleteRows("assistant_opt_outs"),
    DeleteRows("assistant_usage"),
    # Chat
    DeleteRows("message_images", f"t.message_id IN (SELECT t.id FROM messages t WHERE {_OWN_MESSAGES})"),
    ClearColumns("messages", {"body": DELETED_TEXT}, where=_OWN_MESSAGES),
    DeleteRows("blocked_messages"),
    DeleteRows("phone_exchanges"),
    DeleteRows("chat_blocks"),
    # Reviews
    DeleteRows("review_images", "t.review_id IN (SELECT r.id FROM reviews r WHERE r.author_id = :user_id)"),
    ClearColumns("reviews", {"text": ""}, where="t.author_id = :user_id AND t.text IS NOT NULL"),
    ClearColumns(
        "reviews",
        {"reply_text": None, "replied_at": None, "reply_edited_at": None},
        where=f"t.vendor_id IN ({_OWN_STORES})",
    ),
    ClearColumns("content_reports", {"text": None}),
    # Support
    DeleteRows(
        "support_attachments",
        f"t.message_id IN (SELECT m.id FROM support_ticket_messages m WHERE m.ticket_id IN ({_OWN_TICKETS}))",
    ),
    ClearColumns(
        "support_ticket_messages",
        {"body": None, "email_message_id": None, "provider_message_id": None, "contact_message_id": None},
        where=f"t.ticket_id IN ({_OWN_TICKETS})",
    ),
    ClearColumns(
        "support_tickets",
        {
            "subject": DELETED_TEXT,
            "rating_comment": None,
            "status": "closed",
            "closed_at": func.coalesce(literal_column("closed_at"), _NOW),
            "due_at": None,
        },
        where=f"t.id IN ({_OWN_TICKETS})",
        unless_equal=("subject", "rating_comment", "status", "due_at"),
    ),
    DeleteRows("support_contact_messages"),
    ClearColumns(
        "support_contacts",
        {
            "sender": DELETED_TEXT,
            "sender_index": None,
            "phone": None,
            "display_name": None,
        },
        unless_equal=("sender_index", "phone", "display_name"),
    ),
    # Store
    DeleteRows("product_images"),
    ClearColumns(
        "products",
        {
            "title": "Deleted listing",
            "description": "",
            "tags": [],
            "cover_key": None,
            "status": "deleted",
            "status_reason": None,
            "held": False,
            "deleted_at": func.coalesce(literal_column("deleted_at"), _NOW),
        },
        unless_equal=("title", "description", "tags", "cover_key", "status", "status_reason"),
    ),
    DeleteRows("search_documents"),
    DeleteRows("store_days"),
    DeleteRows("store_product_days"),
    ClearColumns(
        "vendor_applications",
        {
            "store_name": DELETED_TEXT,
            "slug": _DELETED_SLUG,
            "description": "",
            "account_number": DELETED_TEXT,
            "account_name": "",
            "recipient_code": "",
            "question": None,
            "comment": None,
            "decision_reason": None,
            "status": literal_column(
                "CASE WHEN status IN ('submitted', 'under_review', 'needs_info') THEN 'withdrawn' ELSE status END"
            ),
        },
        unless_equal=("store_name", "slug", "description", "account_name", "recipient_code", "comment"),
    ),
    ClearColumns(
        "vendor_profiles",
        {
            "display_name": "Deleted store",
            "slug": _DELETED_SLUG,
            "description": "",
            "vacation_note": None,
            "policies": {},
            "weekly_hours": None,
            "verified": False,
            "status": "closed",
            "suspended_with_owner": False,
        },
        unless_equal=("display_name", "slug", "description", "vacation_note", "status"),
    ),
    # Money: amounts and references stay
    ClearColumns(
        "orders",
        {"shipping_address": {}, "delivery_phone": None, "note": None},
        where="t.buyer_id = :user_id",
    ),
    ClearColumns("orders", {"tracking_note": None, "cancellation_reason": None}),
    ClearColumns("transfer_accounts", {"account_name": ""}),
    ClearColumns(
        "payout_accounts",
        {
            "account_number": DELETED_TEXT,
            "account_number_index": DELETED_TEXT,
            "account_name": "",
            "recipient_code": None,
            "replaced_at": func.coalesce(literal_column("replaced_at"), _NOW),
        },
        unless_equal=("account_name", "recipient_code"),
    ),
    # Former staff
    DeleteRows("rep_shifts"),
    DeleteRows("staff_sign_ins"),
    DeleteRows("support_duties"),
    DeleteRows("support_views"),
)

# Personal columns that stay in retained rows, for the reason of their table.
KEPT_COLUMNS: Mapping[str, frozenset[str]] = {
    "account_appeals": frozenset({"text", "comment"}),
    "account_decisions": frozenset({"reason"}),
    "dispute_appeals": frozenset({"reason", "rationale"}),
    "dispute_events": frozenset({"note"}),
    "dispute_evidence": frozenset({"note"}),
    "dispute_offers": frozenset({"note"}),
    "dispute_returns": frozenset({"tracking_note"}),
    "disputes": frozenset({"reason", "description", "response", "finding", "rationale"}),
    "payout_approvals": frozenset({"comment"}),
    "quarantined_charges": frozenset({"resolution_note"}),
    "refunds": frozenset({"reason"}),
    "report_cases": frozenset({"decision_reason"}),
    "transfer_accounts": frozenset({"account_number"}),
}
# Personal columns of append-only tables, which the end of the person's key makes unreadable.
SEALED_COLUMNS: Mapping[str, frozenset[str]] = {
    "audit_logs": frozenset({"ip_address", "user_agent"}),
    "order_events": frozenset({"note"}),
}
