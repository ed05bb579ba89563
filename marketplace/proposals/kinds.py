"""Kinds of proposals about the platform, and the table of all kinds."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.alerts.queries import list_open_subjects
from marketplace.catalog.commission_rates import COMMISSION_RATE_SQL, INHERITS_COMMISSION_RATE_SQL
from marketplace.catalog.models import Category
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ValidationError
from marketplace.orders.pricing import Fees, OrderLine, price_order, split_escrow
from marketplace.platform import features, halts
from marketplace.platform.fees import COMMISSION, FEES, REFERRAL_TERMS, FeeSetting
from marketplace.platform.operations import set_setting
from marketplace.platform.queries import fetch_platform_settings
from marketplace.proposals import texts
from marketplace.proposals.change import Change, Payload
from marketplace.proposals.wallet_adjustment import WalletAdjustment

_FLAG_KEY_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,63}")
_MINIMUM_PAYOUT = "minimum_payout_minor"
_SAMPLE_PRICE_MINOR = 1_000_000


def _format_timestamp(at: datetime | None) -> str | None:
    """Format a time as in API responses, but omit a zero fraction of a second."""
    return None if at is None else iso(at).replace(".000000Z", "Z")


def _ensure_in_range(value: Any, fee: FeeSetting, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not fee.minimum <= value <= fee.maximum:
        raise ValidationError.of(name, f"Must be a whole number from {fee.minimum} to {fee.maximum}.")
    return value


def _price_sample_order(settings: Mapping[str, Any], *, commission_bps: int | None = None) -> dict[str, int]:
    """Price a sample order with the platform's settings and split the escrow, in kobo.

    :param commission_bps: the rate of the item's category; the platform's rate by default
    """
    fees = Fees(
        commission_bps=settings["commission_bps"],
        service_fee_minor=settings["service_fee_minor"],
        delivery_fee_minor=settings["delivery_fee_minor"],
    )
    line = OrderLine(
        _SAMPLE_PRICE_MINOR, 1, fees.commission_bps if commission_bps is None else commission_bps
    )
    price = price_order([line], fees=fees, is_delivery=True)
    release = split_escrow(price, commission_minor=line.commission_minor)
    return {
        "subtotalMinor": price.subtotal_minor,
        "deliveryFeeMinor": price.delivery_fee_minor,
        "serviceFeeMinor": price.service_fee_minor,
        "totalMinor": price.total_minor,
        "commissionMinor": line.commission_minor,
        "vendorMinor": release.vendor_minor,
        "platformMinor": release.platform_minor,
    }


def _compare_sample_orders(before: dict[str, int], after: dict[str, int]) -> dict[str, Any]:
    """Build the effect of a price change: a sample order before and after the change."""
    return {
        "sampleOrder": {
            "description": "One item for NGN 10,000.00, with delivery",
            "before": before,
            "after": after,
        }
    }


_COUNT_PAYABLE_VENDORS = Statement(
    text(
        """
        SELECT count(*) FILTER (WHERE balance_minor >= :before) AS before,
            count(*) FILTER (WHERE balance_minor >= :after) AS after
        FROM ledger_accounts WHERE kind = 'vendor_payable' AND balance_minor > 0
        """
    )
)


class FeeChange(Change):
    """A change of a platform fee or limit."""

    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        """Check the setting's key and the range of the new value."""
        fee = FEES.get(payload_input["key"])
        if fee is None:
            raise ValidationError.of("payload.key", f"Must be one of: {', '.join(FEES)}.")
        return {
            "key": payload_input["key"],
            "value": _ensure_in_range(payload_input["value"], fee, "payload.value"),
        }

    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
        """Return the setting's current value."""
        return {"key": payload["key"], "value": fetch_platform_settings(session)[payload["key"]]}

    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Return a sample order before and after.

        For the minimum payout, return the counts of payable vendors, and for referrals the terms before and after.
        """
        settings = fetch_platform_settings(session)
        changed = settings | {payload["key"]: payload["value"]}
        if payload["key"] == _MINIMUM_PAYOUT:
            return {
                "vendorsWithAtLeast": _COUNT_PAYABLE_VENDORS.one(
                    session, before=settings[_MINIMUM_PAYOUT], after=changed[_MINIMUM_PAYOUT]
                )
            }
        if payload["key"] in REFERRAL_TERMS:
            return {
                "referralTerms": {
                    "before": {key: settings[key] for key in REFERRAL_TERMS},
                    "after": {key: changed[key] for key in REFERRAL_TERMS},
                }
            }
        return _compare_sample_orders(_price_sample_order(settings), _price_sample_order(changed))

    def apply(self, session: Session, payload: Payload, *, proposal_id: UUID, now: datetime) -> None:
        """Write the setting's new value."""
        key = payload["key"]
        set_setting(session, key=key, value=payload["value"], description=FEES[key].meaning, now=now)


_SELECT_CATEGORY = Statement(
    text(
        f"""
        SELECT c.id, c.name, c.commission_bps, {COMMISSION_RATE_SQL} AS rate_bps,
            (SELECT {COMMISSION_RATE_SQL} FROM categories c WHERE c.id = own.parent_id) AS inherited_bps
        FROM categories c JOIN categories own ON own.id = c.id WHERE c.id = :category_id
        """
    )
)
_COUNT_PRODUCTS = Statement(
    text(
        f"""
        SELECT count(*) FROM products p JOIN categories c ON c.id = p.category_id
        WHERE p.status = 'published' AND {INHERITS_COMMISSION_RATE_SQL}
        """
    )
)


class CategoryCommission(Change):
    """A change of a category's own commission rate, which subcategories without a rate inherit.

    A null rate makes the category inherit the parent category's rate.
    """

    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        """Check that the category exists and that the rate is in range."""
        bps = payload_input["commission_bps"]
        if bps is not None:
            _ensure_in_range(bps, COMMISSION, "payload.commissionBps")
        if _SELECT_CATEGORY.first(session, category_id=payload_input["category_id"]) is None:
            raise ValidationError.of("payload.categoryId", "Category not found.")
        return {"categoryId": str(payload_input["category_id"]), "commissionBps": bps}

    def target(self, payload: Payload) -> str:
        """Return the category's id."""
        return str(payload["categoryId"])

    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
        """Return the category's own rate."""
        row = self._select_category(session, payload)
        return self._serialize(row, row["commission_bps"])

    def proposed_state(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Return the category with the proposed rate."""
        return self._serialize(self._select_category(session, payload), payload["commissionBps"])

    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Return a sample order before and after, and the number of affected published products."""
        row, settings = self._select_category(session, payload), fetch_platform_settings(session)
        own_bps = payload["commissionBps"]
        before = _price_sample_order(settings, commission_bps=row["rate_bps"])
        after = _price_sample_order(
            settings, commission_bps=row["inherited_bps"] if own_bps is None else own_bps
        )
        return _compare_sample_orders(before, after) | {
            "publishedProducts": _COUNT_PRODUCTS.scalar(session, category_id=row["id"])
        }

    def apply(self, session: Session, payload: Payload, *, proposal_id: UUID, now: datetime) -> None:
        """Write the category's own rate."""
        session.execute(
            update(Category)
            .where(Category.id == UUID(payload["categoryId"]))
            .values(commission_bps=payload["commissionBps"])
        )

    def _select_category(self, session: Session, payload: Payload) -> dict[str, Any]:
        # Categories are never deleted, so the proposed category still exists.
        return _SELECT_CATEGORY.one(session, category_id=UUID(payload["categoryId"]))

    def _serialize(self, row: dict[str, Any], bps: int | None) -> dict[str, Any]:
        return {"categoryId": str(row["id"]), "category": row["name"], "commissionBps": bps}


class FeatureFlag(Change):
    """A switch of a feature flag."""

    ignores_prior_state = True

    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        """Check the format of the flag's key."""
        if not _FLAG_KEY_PATTERN.fullmatch(payload_input["key"]):
            raise ValidationError.of(
                "payload.key",
                "Must be 2 to 64 letters, digits, dots, hyphens or underscores, and start with a letter.",
            )
        return {"key": payload_input["key"], "enabled": payload_input["enabled"]}

    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
        """Return the flag's current value, or none for a new flag."""
        flags = features.read_features(fetch_platform_settings(session))
        return {"key": payload["key"], "enabled": flags.get(payload["key"])}

    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Return the meaning of the flag, and whether the service uses the flag."""
        feature = features.FEATURES.get(payload["key"])
        meaning = feature.meaning if feature else texts.UNUSED_FLAG_EFFECT
        return {"usedByService": feature is not None, "meaning": meaning}

    def apply(self, session: Session, payload: Payload, *, proposal_id: UUID, now: datetime) -> None:
        """Write the flag."""
        set_setting(
            session,
            key=features.feature_setting_key(payload["key"]),
            value=payload["enabled"],
            description=f"Whether the feature {payload['key']} is on",
            now=now,
        )


class MaintenanceChange(Change):
    """The start or the end of platform maintenance."""

    ignores_prior_state = True

    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        """Check that the maintenance ends after its start."""
        until = payload_input.get("until")
        if until is not None and until <= now:
            raise ValidationError.of("payload.until", "Must be after the time when the change takes effect.")
        return {
            "active": payload_input["active"],
            "message": payload_input.get("message"),
            "until": _format_timestamp(until),
        }

    def target(self, payload: Payload) -> str:
        """Return the key of the maintenance setting."""
        return features.MAINTENANCE

    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
        """Return the current maintenance, if any."""
        maintenance = features.read_maintenance(fetch_platform_settings(session), now=now)
        return {
            "active": maintenance.active,
            "message": maintenance.message,
            "until": _format_timestamp(maintenance.until),
        }

    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Return the features that the maintenance switches off."""
        return {
            "switchedOff": [
                name
                for name, feature in features.FEATURES.items()
                if feature.off_in_maintenance and payload["active"]
            ]
        }

    def apply(self, session: Session, payload: Payload, *, proposal_id: UUID, now: datetime) -> None:
        """Write the maintenance setting."""
        set_setting(
            session,
            key=features.MAINTENANCE,
            value=payload,
            description="Whether the platform is under maintenance",
            now=now,
        )


# The state of payouts without a halt.
_NOT_HALTED: dict[str, Any] = {
    "halted": False,
    "haltId": None,
    "haltMark": None,
    "haltReason": None,
    "haltedAt": None,
    "findings": 0,
    "found": [],
}


class PayoutResume(Change):
    """The end of a halt of payouts.

    The proposal covers the halt and the findings that existed at the filing. A later finding makes the proposal
    stale, also after the approval.
    """

    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        """Check that payouts are halted, and store the halt's id and mark."""
        halt = halts.fetch_current_halt(session)
        if halt is None:
            raise halts.PayoutsNotHaltedError("Payouts are not halted, so there is nothing to resume.")
        return {"reason": payload_input["reason"], "haltId": str(halt.id), "haltMark": halt.mark}

    def lock_target(self, session: Session) -> None:
        """Lock the current halt, so that no finding is added meanwhile."""
        halts.lock_halt(session)

    def target(self, payload: Payload) -> str:
        """Return the fixed name of the target."""
        return "payouts"

    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
        """Return the current halt with the findings."""
        halt = halts.fetch_current_halt(session)
        if halt is None:
            return dict(_NOT_HALTED)
        return {
            "halted": True,
            "haltId": str(halt.id),
            "haltMark": halt.mark,
            "haltReason": halt.reason,
            "haltedAt": _format_timestamp(halt.halted_at),
            "findings": halt.finding_count,
            "found": halts.list_findings(halt),
        }

    def proposed_state(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Return the state without a halt."""
        return dict(_NOT_HALTED)

    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Return the open drift alerts, and whether the proposal still matches the current halt."""
        drifts = sorted(list_open_subjects(session, identifier="ESCROW_DRIFT"))
        halt = halts.fetch_current_halt(session)
        halt_now = (str(halt.id), halt.mark) if halt else None
        return {"resumes": halt_now == (payload["haltId"], payload["haltMark"]), "openDrifts": drifts}

    def apply(self, session: Session, payload: Payload, *, proposal_id: UUID, now: datetime) -> None:
        """Resume payouts, unless another finding was added to the halt."""
        halts.resume_payouts(
            session,
            halt_id=UUID(payload["haltId"]),
            mark=payload["haltMark"],
            proposal_id=proposal_id,
            now=now,
        )


CHANGES: dict[str, Change] = {
    "fee": FeeChange(),
    "category_commission": CategoryCommission(),
    "payout_resume": PayoutResume(),
    "feature_flag": FeatureFlag(),
    "maintenance": MaintenanceChange(),
    "wallet_adjustment": WalletAdjustment(),
}
