"""The registry of notification kinds: preference, channels, category, priority and lifetime."""

from dataclasses import dataclass
from datetime import timedelta

PUSH, MESSAGING, SMS, EMAIL = "push", "messaging", "sms", "email"
CHANNELS = (PUSH, MESSAGING, SMS, EMAIL)
# The channels that carry the delivery PIN, from the cheapest to the surest. A push carries only a link.
PIN_CHANNELS = (PUSH, MESSAGING, SMS)


@dataclass(frozen=True, slots=True)
class NotificationKind:
    """A kind of notification.

    :ivar preference: the kind of preferences that turns channels off; none for messages that users must receive
    :ivar channels: the channels that may carry the notification
    :ivar is_marketing: whether e-mails have a link to unsubscribe, and a lost message costs nothing
    :ivar waits_for_morning: whether the notification respects quiet hours
    :ivar carries_pin: whether messages carry the delivery PIN of the subject, an order
    :ivar lifetime: the time after which the notification is no longer sent
    """

    name: str
    preference: str | None
    channels: tuple[str, ...] = CHANNELS
    is_marketing: bool = False
    waits_for_morning: bool = False
    carries_pin: bool = False
    lifetime: timedelta = timedelta(days=2)


_SECURITY = (PUSH, SMS, EMAIL)
_WITHOUT_SMS = (PUSH, MESSAGING, EMAIL)
_OF_STAFF = (PUSH, EMAIL)


def _kinds(preference: str | None, channels: tuple[str, ...], names: str) -> list[NotificationKind]:
    return [NotificationKind(name, preference, channels) for name in names.split()]


def _quiet(preference: str, names: str, *, is_marketing: bool = False) -> list[NotificationKind]:
    return [
        NotificationKind(name, preference, _WITHOUT_SMS, is_marketing=is_marketing, waits_for_morning=True)
        for name in names.split()
    ]


_ALL = [
    NotificationKind("order_paid", "orders", carries_pin=True),
    *_kinds("orders", CHANNELS, "order_received order_expired order_cancelled order_refunded order_disputed"),
    *_kinds("orders", CHANNELS, "order_reminder"),
    *_kinds("orders", CHANNELS, "order_clawed_back"),
    *_kinds("payments", CHANNELS, "payment_returned payment_held payment_resolved payment_taken_back"),
    *_kinds("payments", CHANNELS, "refund_processed refund_delayed refund_paid_twice"),
    *_kinds("payments", CHANNELS, "wallet_credited wallet_adjusted debt_collected referral_reward"),
    *_kinds("payouts", CHANNELS, "payout_sent payout_failed payout_called_off"),
    NotificationKind("message_received", "chat", _WITHOUT_SMS, lifetime=timedelta(hours=12)),
    *_kinds("chat", _WITHOUT_SMS, "phone_exchange_requested phone_exchange_agreed"),
    *_quiet("reviews", "review_received review_reply review_hidden review_restored"),
    *_quiet("favorites", "favorite_price_dropped favorite_restocked", is_marketing=True),
    *_kinds("support", _WITHOUT_SMS, "report_decided support_reply support_resolved"),
    *_kinds(
        "support",
        _WITHOUT_SMS,
        "product_published product_rejected product_removed product_deleted product_held",
    ),
    *_kinds("support", _WITHOUT_SMS, "application_needs_info application_approved application_rejected"),
    *_kinds(None, _SECURITY, "bank_account_changed"),
    *_kinds(None, (PUSH, EMAIL), "export_ready export_failed"),
    *_kinds(None, _SECURITY, "deletion_requested deletion_cancelled deletion_reminder"),
    *_kinds(None, _SECURITY, "account_restricted account_suspended account_reinstated appeal_decided"),
    *_kinds(None, _OF_STAFF, "staff_role_granted staff_role_revoked payout_batch_staged proposal_filed"),
    *_kinds(None, _OF_STAFF, "support_assigned support_user_replied"),
    *_kinds(None, _OF_STAFF, "proposal_approved proposal_active proposal_rejected proposal_expired"),
]
KINDS = {kind.name: kind for kind in _ALL}
# The kinds that other services can request. Only an order's payment may carry its PIN.
REQUESTABLE = tuple(kind.name for kind in _ALL if not kind.carries_pin)
