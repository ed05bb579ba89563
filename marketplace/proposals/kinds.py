"""What can be proposed: of each kind what is checked, what it changes, what that does, and how it is done."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.alerts.queries import list_open_subjects
from marketplace.catalog.commission_rates import COMMISSION_RATE_SQL, INHERITS_COMMISSION_RATE_SQL
from marketplace.catalog.models import Category
from marketplace.infra.db import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ValidationError
from marketplace.orders.pricing import Fees, OrderLine, price_order, split_escrow
from marketplace.platform import features, halts
from marketplace.platform.fees import COMMISSION, FEES, FeeSetting
from marketplace.platform.operations import set_setting
from marketplace.platform.queries import fetch_platform_settings

Payload = dict[str, Any]

_FLAG_KEY_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,63}")
_MINIMUM_PAYOUT = "minimum_payout_minor"
_SAMPLE_PRICE_MINOR = 1_000_000


def _format_timestamp(at: datetime | None) -> str | None:
    """Write a time as answers do: without a fraction of a second that there is none of."""
    return None if at is None else iso(at).replace(".000000Z", "Z")


class Change(ABC):
    """A kind of proposal. A payload is as it is kept: what JSON can say, named as on the wire.

    ``ignores_prior_state`` says that it is a switch: what it was before does not matter to those who approved it.
    """

    ignores_prior_state: ClassVar[bool] = False

    @abstractmethod
    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        """Check what is proposed, and give it as it is kept.

        :param payload_input: as it was read; what a kind takes is there
        :param now: when it would take effect
        :raises ValidationError: it is out of range, or names something that there is none of
        :raises ConflictError: there is nothing to do it to
        """

    def lock_target(self, session: Session) -> None:  # noqa: B027 - most are changed by proposals alone
        """Keep what is changed as it is until the transaction ends, from what is no proposal."""

    def target(self, payload: Payload) -> str:
        """Name what is changed."""
        return str(payload["key"])

    @abstractmethod
    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
        """Give what is changed as it is now."""

    def proposed_state(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Give what is changed as it would be."""
        return dict(payload)

    @abstractmethod
    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Show what the change does."""

    @abstractmethod
    def apply(self, session: Session, payload: Payload, *, proposal_id: UUID, now: datetime) -> None:
        """Do it.

        :raises ConflictError: there is nothing to do it to any more
        """


def _ensure_in_range(value: Any, fee: FeeSetting, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not fee.minimum <= value <= fee.maximum:
        raise ValidationError.of(name, f"Must be a whole number from {fee.minimum} to {fee.maximum}.")
    return value


def _price_sample_order(settings: Mapping[str, Any], *, commission_bps: int | None = None) -> dict[str, int]:
    """Price a sample order as the platform would, and split it up, in kobo.

    :param settings: the platform's
    :param commission_bps: of the item's category; none for the platform's own
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
    """Show a sample order before a change and after it."""
    return {
        "sampleOrder": {
            "description": "One item of NGN 10,000.00, delivered",
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
    """A fee, or a limit, of the platform."""

    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        fee = FEES.get(payload_input["key"])
        if fee is None:
            raise ValidationError.of("payload.key", f"Must be one of: {', '.join(FEES)}.")
        return {
            "key": payload_input["key"],
            "value": _ensure_in_range(payload_input["value"], fee, "payload.value"),
        }

    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
        return {"key": payload["key"], "value": fetch_platform_settings(session)[payload["key"]]}

    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
        settings = fetch_platform_settings(session)
        changed = settings | {payload["key"]: payload["value"]}
        if payload["key"] == _MINIMUM_PAYOUT:
            return {
                "vendorsWithAtLeast": _COUNT_PAYABLE_VENDORS.one(
                    session, before=settings[_MINIMUM_PAYOUT], after=changed[_MINIMUM_PAYOUT]
                )
            }
        return _compare_sample_orders(_price_sample_order(settings), _price_sample_order(changed))

    def apply(self, session: Session, payload: Payload, *, proposal_id: UUID, now: datetime) -> None:
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
    """A category's own commission, and of those below it that have none; none means that of the one above it."""

    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        bps = payload_input["commission_bps"]
        if bps is not None:
            _ensure_in_range(bps, COMMISSION, "payload.commissionBps")
        if _SELECT_CATEGORY.first(session, category_id=payload_input["category_id"]) is None:
            raise ValidationError.of("payload.categoryId", "There is no such category.")
        return {"categoryId": str(payload_input["category_id"]), "commissionBps": bps}

    def target(self, payload: Payload) -> str:
        return str(payload["categoryId"])

    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
        row = self._select_category(session, payload)
        return self._serialize(row, row["commission_bps"])

    def proposed_state(self, session: Session, payload: Payload) -> dict[str, Any]:
        return self._serialize(self._select_category(session, payload), payload["commissionBps"])

    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
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
        session.execute(
            update(Category)
            .where(Category.id == UUID(payload["categoryId"]))
            .values(commission_bps=payload["commissionBps"])
        )

    def _select_category(self, session: Session, payload: Payload) -> dict[str, Any]:
        # Categories are never deleted: one that was there when it was proposed is there.
        return _SELECT_CATEGORY.one(session, category_id=UUID(payload["categoryId"]))

    def _serialize(self, row: dict[str, Any], bps: int | None) -> dict[str, Any]:
        return {"categoryId": str(row["id"]), "category": row["name"], "commissionBps": bps}


class FeatureFlag(Change):
    """A feature that is switched on or off."""

    ignores_prior_state = True

    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        if not _FLAG_KEY_PATTERN.fullmatch(payload_input["key"]):
            raise ValidationError.of(
                "payload.key",
                "Must be 2 to 64 letters, digits, dots, hyphens or underscores, a letter first.",
            )
        return {"key": payload_input["key"], "enabled": payload_input["enabled"]}

    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
        flags = features.read_features(fetch_platform_settings(session))
        return {"key": payload["key"], "enabled": flags.get(payload["key"])}

    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
        feature = features.FEATURES.get(payload["key"])
        meaning = (
            feature.meaning
            if feature
            else "The service itself does nothing by it; applications are told of it."
        )
        return {"usedByService": feature is not None, "meaning": meaning}

    def apply(self, session: Session, payload: Payload, *, proposal_id: UUID, now: datetime) -> None:
        set_setting(
            session,
            key=features.feature_setting_key(payload["key"]),
            value=payload["enabled"],
            description=f"Whether the feature {payload['key']} is on",
            now=now,
        )


class MaintenanceChange(Change):
    """That the platform is being worked on, or no longer."""

    ignores_prior_state = True

    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        until = payload_input.get("until")
        if until is not None and until <= now:
            raise ValidationError.of("payload.until", "Must be after it takes effect.")
        return {
            "active": payload_input["active"],
            "message": payload_input.get("message"),
            "until": _format_timestamp(until),
        }

    def target(self, payload: Payload) -> str:
        return features.MAINTENANCE

    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
        maintenance = features.read_maintenance(fetch_platform_settings(session), now=now)
        return {
            "active": maintenance.active,
            "message": maintenance.message,
            "until": _format_timestamp(maintenance.until),
        }

    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
        return {
            "switchedOff": [
                name
                for name, feature in features.FEATURES.items()
                if feature.off_in_maintenance and payload["active"]
            ]
        }

    def apply(self, session: Session, payload: Payload, *, proposal_id: UUID, now: datetime) -> None:
        set_setting(
            session,
            key=features.MAINTENANCE,
            value=payload,
            description="Whether the platform is being worked on",
            now=now,
        )


# What a halt is shown as while there is none.
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
    """That payouts go on, which a drift had halted.

    It is for the halt that there was when it was proposed, with what was found by then. Drift that is found later,
    also after it was approved, is not carried with it.
    """

    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        halt = halts.fetch_current_halt(session)
        if halt is None:
            raise halts.PayoutsNotHaltedError("Payouts are not halted: there is nothing to resume.")
        return {"reason": payload_input["reason"], "haltId": str(halt.id), "haltMark": halt.mark}

    def lock_target(self, session: Session) -> None:
        halts.lock_halt(session)

    def target(self, payload: Payload) -> str:
        return "payouts"

    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
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
        return dict(_NOT_HALTED)

    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
        drifts = sorted(list_open_subjects(session, identifier="ESCROW_DRIFT"))
        halt = halts.fetch_current_halt(session)
        halt_now = (str(halt.id), halt.mark) if halt else None
        return {"resumes": halt_now == (payload["haltId"], payload["haltMark"]), "openDrifts": drifts}

    def apply(self, session: Session, payload: Payload, *, proposal_id: UUID, now: datetime) -> None:
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
}
