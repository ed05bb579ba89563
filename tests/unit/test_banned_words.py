# ruff: noqa: RUF001 - look-alike characters are the test data
"""Listing screening: banned words are found in any spelling without false alarms, and extreme prices are flagged."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from commands.seeding.categories import CATEGORIES
from marketplace.catalog.models import BannedTerm
from marketplace.catalog.moderation.banned_word_matcher import BannedWords, tokenize_phrase
from marketplace.catalog.moderation.rules import ListingContent, find_rule_violations
from tests.support.growth import assert_linear

MIGRATION = Path(__file__).parents[2] / "migrations" / "versions" / "1014_reference_data.py"


def starting_set() -> list[BannedTerm]:
    """Return the banned terms of a new installation."""
    spec = importlib.util.spec_from_file_location("reference_data", MIGRATION)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [
        BannedTerm(term=term, category=category, exceptions=list(exceptions))
        for category, terms in module._BANNED.items()
        for term, exceptions in terms.items()
    ]


TERMS = starting_set()
BANNED = BannedWords(TERMS)
FIT = ListingContent(
    title="Reading lamp",
    description="Hardly used.",
    price_minor=50_000,
    condition="good",
    tags=["lamp"],
    image_count=1,
)


def found_terms(text: str) -> list[str]:
    return [term.term for term in BANNED.find_phrases(text)]


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("Gun for sale", "gun"),
        ("two GUNS", "gun"),
        ("g u n", "gun"),
        ("G.U.N.", "gun"),
        ("gun!", "gun"),
        ("gün", "gun"),
        ("ｇｕｎ", "gun"),
        ("The gun's holster", "gun"),
        ("c0caine", "cocaine"),
        ("c0c@in3", "cocaine"),
        ("COCAAAAINE", "cocaine"),
        ("co-caine", "cocaine"),
        ("с\u043eсаine", "cocaine"),
        ("w33d", "weed"),
        ("W.E.E.D", "weed"),
        ("t r a m a d o l tabs", "tramadol"),
        ("tra madol", "tramadol"),
        ("Exam runz, all levels", "exam runz"),
        ("EXAMRUNZ", "exam runz"),
        ("exam-runz", "exam runz"),
        ("We will write exam for you", "write exam for you"),
        ("Fake IDs", "fake id"),
        ("Indian   hemp", "indian hemp"),
        ("Glue gun and gun", "gun"),
        ("Roses and guns", "gun"),
        ("Guns N Roses shirt and a gun", "gun"),
    ],
)
def test_banned_term_is_found_in_any_spelling(text: str, term: str) -> None:
    assert term in found_terms(text)


@pytest.mark.parametrize(
    "text",
    [
        "Gunners mug",
        "Hot glue gun with sticks",
        "Glue-guns",
        "Begun to read",
        "Segun's textbooks",
        "Top Gun poster",
        "Guns N Roses T-shirt",
        "Guns N' Roses tour poster",
        "guns and roses vinyl",
        "Seaweed snack",
        "Weed killer for gardens",
        "Tweed jacket",
        "Human hair wig",
        "Expo markers, whiteboard",
        "Counterfeit money detector pen",
        "Whisky glass set",
        "Shirts S M L XL",
        "a b c d e f g",
        "1 2 3 4 5 6",
        "Swagger hoodie",
        "Canon EOS 15D",
        "Forged steel knife block",
        "Original, not stolen",
        "Tom Ford Tobacco Vanille",
        "Car cigarette lighter charger",
        "iPhone 13 128GB",
        "Samsung A55 5G",
        "Vaporizer for colds",
        "Bullet journal",
        "Kitchen knife set",
        "LG TV",
        "Ìwé kíkà",
        "Past questions 2019 to 2024",
        "Forget-me-not mug",
    ],
)
def test_harmless_text_that_resembles_banned_term_passes(text: str) -> None:
    assert found_terms(text) == []


@given(
    st.sampled_from([term for term in TERMS if len(term.term) >= 5]),
    st.sampled_from([str.upper, str.title, str.capitalize]),
    st.sampled_from(["{}", "{}s", "Buy {} here", "the {}, new", "({})", "{}!", "*{}*", "\u201c{}\u201d"]),
)
def test_every_starting_term_is_found_in_any_case_and_punctuation(
    term: BannedTerm, write: Any, frame: str
) -> None:
    assert term.term in found_terms(frame.format(write(term.term)))


@given(
    st.sampled_from([term for term in TERMS if len("".join(tokenize_phrase(term.term))) >= 4]),
    st.sampled_from(" .-_*"),
)
def test_every_starting_term_is_found_when_spaced_out(term: BannedTerm, separator: str) -> None:
    assert term.term in found_terms(separator.join("".join(tokenize_phrase(term.term))))


@given(st.sampled_from([(term, phrase) for term in TERMS for phrase in term.exceptions]))
def test_exception_phrase_contains_term_and_is_not_reported(pair: tuple[BannedTerm, str]) -> None:
    term, phrase = pair
    assert set(tokenize_phrase(term.term)) <= set(tokenize_phrase(phrase))
    assert term.term not in found_terms(f"A {phrase} for sale")


def test_starting_terms_are_folded_and_unique() -> None:
    terms = [term.term for term in TERMS]
    assert len(set(terms)) == len(terms) > 60
    assert all(" ".join(tokenize_phrase(term)) == term for term in terms)


def test_demo_catalogue_raises_no_violation() -> None:
    """All product names of the demonstration seed pass the word rules."""
    names = [text for text in _texts([vars(category.node) for category in CATEGORIES]) if len(text) > 2]
    assert len(names) > 200
    alarms = {
        name: find_rule_violations(replace(FIT, title=f"New {name}"[:140]), BANNED, []) for name in names
    }
    assert {name: reasons for name, reasons in alarms.items() if reasons} == {}


def _texts(value: Any, depth: int = 0) -> list[str]:
    """Collect all texts within the seed data."""
    if isinstance(value, str):
        return [value]
    if depth > 12:
        return []
    if isinstance(value, dict):
        return [
            text
            for key, item in value.items()
            if not str(key).startswith("__")
            for text in _texts(item, depth + 1)
        ]
    if isinstance(value, tuple | list | set | frozenset):
        return [text for item in value for text in _texts(item, depth + 1)]
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return [
            text for name in value.__dataclass_fields__ for text in _texts(getattr(value, name), depth + 1)
        ]
    return []


class TestFindings:
    def test_banned_word_is_named_once_in_any_field(self) -> None:
        for change in ({"title": "Fresh weed"}, {"description": "Fresh weed"}, {"tags": ["weed"]}):
            [reason] = find_rule_violations(replace(FIT, **change), BANNED, [])  # type: ignore[arg-type]
            assert "\u201cweed\u201d" in reason
            assert "drugs" in reason
        assert (
            len(
                find_rule_violations(
                    replace(FIT, title="Weed", description="weed", tags=["weed"]), BANNED, []
                )
            )
            == 1
        )

    def test_contact_details_are_reported_by_field_and_kind_without_value(self) -> None:
        content = replace(
            FIT,
            title="Lamp 08031234567",
            description="IG: ada_sells, ada@x.com",
            tags=["0803", "123", "4567"],
        )

        reasons = find_rule_violations(content, BANNED, [])

        assert len(reasons) == 3
        assert reasons[0].startswith("The title contains a phone number.")
        assert "an e-mail address and a username on another network" in reasons[1]
        assert reasons[2].startswith("The tags contain a phone number.")
        assert not any(detail in " ".join(reasons) for detail in ("0803", "ada"))

    @pytest.mark.parametrize(
        ("price_minor", "word"),
        [(2_500_000, "above"), (4_000, "below"), (1_900_000, None), (6_000, None), (100_000, None)],
    )
    def test_price_far_outside_category_range_is_flagged(self, price_minor: int, word: str | None) -> None:
        prices = [80_000 + 2_000 * number for number in range(21)]

        reasons = find_rule_violations(
            replace(FIT, price_minor=price_minor),
            BANNED,
            prices,
        )

        assert [word in reason for reason in reasons if word] == ([True] if word else [])
        assert bool(reasons) == bool(word)

    def test_price_is_not_compared_with_fewer_than_twenty_prices(self) -> None:
        assert (
            find_rule_violations(
                replace(FIT, price_minor=10**9),
                BANNED,
                [100_000] * 19,
            )
            == []
        )
        assert (
            find_rule_violations(
                replace(FIT, price_minor=10**9),
                BANNED,
                [100_000] * 20,
            )
            != []
        )

    def test_wide_price_spread_accepts_higher_prices(self) -> None:
        """A category of cables and laptops is compared with the category's own spread."""
        prices = [100_000] * 30 + [30_000_000] * 30 + [1_000_000] * 30

        assert find_rule_violations(replace(FIT, price_minor=50_000_000), BANNED, prices) == []
        assert (
            find_rule_violations(
                replace(FIT, price_minor=10_000_000_000),
                BANNED,
                [100_000] * 30,
            )
            != []
        )

    @given(st.lists(st.integers(100, 10**10), max_size=60), st.integers(100, 10**10))
    def test_any_prices_are_screened_and_median_price_passes(
        self, prices: list[int], price_minor: int
    ) -> None:
        assert len(find_rule_violations(replace(FIT, price_minor=price_minor), BANNED, prices)) <= 1
        if prices:
            usual = sorted(prices)[len(prices) // 2]
            if len(prices) % 2:
                assert find_rule_violations(replace(FIT, price_minor=usual), BANNED, prices) == []

    def test_screening_time_grows_linearly_with_the_description(self) -> None:
        prices = list(range(100, 1_100))
        listing = replace(FIT, title="gu n " * 28, tags=["co caine"] * 10)

        def screen(description: str) -> None:
            find_rule_violations(replace(listing, description=description), BANNED, prices)

        assert_linear(screen, "g u n s c 0 c ", length=5_000)
