"""Listing rules without a database: status transitions and screening."""

from dataclasses import replace

import pytest

from marketplace.catalog.moderation.banned_word_matcher import BannedWords
from marketplace.catalog.moderation.rules import ListingContent, find_rule_violations
from marketplace.catalog.states import PRODUCT, trigger_for
from marketplace.kernel.errors import ConflictError
from marketplace.kernel.ratings import average_rating

NO_TERMS = BannedWords([])
FIT = ListingContent(
    title="Reading lamp",
    description="Hardly used.",
    price_minor=50_000,
    condition="good",
    tags=["lamp"],
    image_count=1,
)


@pytest.mark.parametrize(
    ("status", "wanted", "material", "screened", "trigger"),
    [
        ("draft", "published", False, False, "submit"),
        ("draft", None, True, False, None),
        ("draft", "draft", True, False, None),
        ("rejected", "published", True, False, "submit"),
        ("rejected", None, True, False, None),
        ("published", None, True, False, "revise"),
        ("published", "published", True, False, "revise"),
        ("published", None, False, True, None),
        ("published", "paused", True, False, "pause"),
        ("paused", "published", False, True, "resume"),
        ("paused", "published", True, False, "submit"),
        ("paused", None, True, False, None),
        ("in_review", "published", True, False, None),
        ("in_review", None, True, False, None),
    ],
)
def test_requested_status_maps_to_the_expected_trigger(
    status: str, wanted: str | None, material: bool, screened: bool, trigger: str | None
) -> None:
    assert (
        trigger_for(status, requested_status=wanted, screened_content_changed=material, is_screened=screened)
        == trigger
    )
    if trigger:
        assert PRODUCT.allows(status, trigger)


@pytest.mark.parametrize("status", ["in_review", "published", "paused", "rejected"])
def test_listing_cannot_become_draft_again(status: str) -> None:
    with pytest.raises(ConflictError, match=status):
        trigger_for(status, requested_status="draft", screened_content_changed=False, is_screened=False)


def test_changed_content_is_never_public_unscreened() -> None:
    into_public = {row.trigger for row in PRODUCT.transitions if row.target == "published"}
    for status in PRODUCT.states:
        for wanted in (None, "published"):
            trigger = trigger_for(
                status, requested_status=wanted, screened_content_changed=True, is_screened=False
            )
            assert trigger not in into_public
            assert status != "published" or trigger == "revise"


def test_deleted_is_the_only_final_state() -> None:
    assert PRODUCT.final_states == {"deleted"}


def test_valid_listing_has_no_violations() -> None:
    assert find_rule_violations(FIT, NO_TERMS, []) == []


@pytest.mark.parametrize("title", ["LG TV", "3D printer", "Ìwé kíkà", "A 1000000 N note holder"])
def test_ordinary_titles_pass(title: str) -> None:
    assert find_rule_violations(replace(FIT, title=title), NO_TERMS, []) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"title": "ab"}, "3 to 140"),
        ({"title": "x" + "yz" * 70}, "3 to 140"),
        ({"title": "12345"}, "in words"),
        ({"title": "!!! ???"}, "in words"),
        ({"title": "Saaaaaaale now"}, "repeat"),
        ({"description": "x" * 5_001}, "description"),
        ({"price_minor": 99}, "price"),
        ({"price_minor": 10_000_000_001}, "price"),
        ({"condition": "mint"}, "condition"),
        ({"tags": ["tag"] * 11}, "tags"),
        ({"tags": ["t" * 31]}, "tags"),
        ({"image_count": 9}, "images"),
    ],
)
def test_each_violation_is_named(change: dict[str, object], word: str) -> None:
    reasons = find_rule_violations(replace(FIT, **change), NO_TERMS, [])  # type: ignore[arg-type]
    assert len(reasons) == 1
    assert word in reasons[0]


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Lamp 0803", "description": "456 7891 is all you need."},
        {"description": "Hardly used, 0803", "tags": ["456", "7891"]},
        {"title": "Lamp, see t.me", "description": "slash ngozi"},
    ],
)
def test_contact_details_split_across_fields_are_found(change: dict[str, object]) -> None:
    [reason] = find_rule_violations(replace(FIT, **change), NO_TERMS, [])  # type: ignore[arg-type]
    assert reason.startswith("Read together")
    assert "0803" not in reason


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Lamp model 0803", "description": "456 in stock, 12 W, N7,891."},
        {"title": "Shoes size 42", "description": "38 39 40 too. 2019/2020", "tags": ["43", "44", "nike"]},
        {"title": "Casio fx-991ES", "description": "15,000 last price", "tags": ["991", "casio"]},
        {"title": "Size 10", "description": "5000 naira for 2, 9000 for 4. 07/08/2026"},
    ],
)
def test_numbers_across_fields_are_not_a_phone_number(change: dict[str, object]) -> None:
    assert find_rule_violations(replace(FIT, **change), NO_TERMS, []) == []  # type: ignore[arg-type]


def test_all_violations_are_reported_together() -> None:
    assert (
        len(find_rule_violations(replace(FIT, title="?!?", price_minor=1, image_count=99), NO_TERMS, [])) == 3
    )


@pytest.mark.parametrize(
    ("total", "count", "average"), [(0, 0, None), (5, 1, 5.0), (13, 3, 4.33), (14, 3, 4.67)]
)
def test_ratings_are_averaged_to_two_decimals(total: int, count: int, average: float | None) -> None:
    assert average_rating(total, count) == average
