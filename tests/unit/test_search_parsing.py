"""Search parsing without a database: words, spelling corrections and queries."""

import pytest

from bench.search_quality.labels import Label
from bench.search_quality.measuring import Outcome, evaluate
from marketplace.catalog.search import query_builder
from marketplace.catalog.search.lexicon import SpellingCandidate, choose_corrections, max_edits
from marketplace.catalog.search.query_builder import LexemeFrequency, Lexicon
from marketplace.catalog.search.tokenizer import (
    MAX_WORDS,
    find_phrases,
    fold,
    split_letters_and_digits,
    tokenize,
    word_forms,
)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("Crème BRÛLÉE", ["creme", "brulee"]),
        ("Ọ̀ṣun's øre, Łódź straße", ["osuns", "ore", "lodz", "strasse"]),
        ("fx-991ES", ["fx", "991es"]),
        ("20,000 mAh, 1.5 m", ["20000", "mah", "1", "5", "m"]),
        ("  “new”—lamp!  ", ["new", "lamp"]),
        ("snake_case", ["snake", "case"]),
        ("🍮 ' & | ! <-> :* \\ %", []),
        ("ﬁne ① ﷺ"[:5], ["fine", "1"]),
        ("x" * 50, ["x" * 40]),
        (" ".join("abcdefghijkl"), list("abcdefghij")),
    ],
)
def test_text_is_folded_to_words(typed: str, expected: list[str]) -> None:
    assert tokenize(typed) == expected
    assert len(tokenize(typed)) <= MAX_WORDS


def test_words_are_split_and_inflected() -> None:
    assert split_letters_and_digits("fx991es") == ["fx", "991", "es"]
    assert split_letters_and_digits("lamp") == ["lamp"]
    assert fold("É") == "e"
    assert set(word_forms("batteries")) >= {"batteries", "battery"}
    assert set(word_forms("boxes")) >= {"boxes", "box"}
    assert word_forms("lamp") == ["lamp", "lamps"]


def test_phrases_are_found_with_positions() -> None:
    found = find_phrases(["cheap", "power", "banks"])

    assert found["power bank"] == found["power banks"] == (1, 3)
    assert found["cheap"] == (0, 1)
    assert "cheap banks" not in found


@pytest.mark.parametrize(
    ("one", "other", "faults"),
    [
        ("lapotp", "laptop", 1),
        ("lmap", "lamp", 1),
        ("matress", "mattress", 1),
        ("lpaotp", "laptop", 2),
        ("matres", "mattress", 2),
        ("lampshad", "lampshades", 1),
        ("latpoq", "laptop", 2),
        ("lmpa", "lamp", 2),
        ("calculator", "calcultaors", 1),
        ("calculator", "clacultaors", 2),
        ("calculator", "clacultaer", 3),
        ("calculator", "mattress", 4),
        ("la", "lamp", 2),
    ],
)
def test_corrections_are_limited_by_edit_distance(one: str, other: str, faults: int) -> None:
    for typed, meant in ((one, other), (other, one)):
        candidates = [SpellingCandidate(meant, 900)]
        expected_of_unknown = [meant] if faults <= max_edits(typed) else []
        assert choose_corrections(typed, candidates) == expected_of_unknown
        assert choose_corrections(typed, candidates, word_documents=1) == ([meant] if faults == 1 else [])


def test_nearest_and_most_frequent_spelling_is_chosen() -> None:
    near = [
        SpellingCandidate("lamp", 5),
        SpellingCandidate("lamb", 50),
        SpellingCandidate("camp", 500),
        SpellingCandidate("laptop", 900),
    ]

    assert choose_corrections("lamq", near) == ["lamb", "lamp"]
    assert choose_corrections("zamp", near) == ["camp", "lamp"]
    assert choose_corrections("lamp", [SpellingCandidate("lamp", 5)]) == []
    assert (
        choose_corrections(
            "powerbank", [SpellingCandidate("power bank", 3), SpellingCandidate("powerbanc", 3)]
        )[0]
        == "power bank"
    )
    assert choose_corrections("kettl", []) == []


def test_known_word_is_corrected_only_to_a_far_more_frequent_word() -> None:
    near = [SpellingCandidate("laptop", 24), SpellingCandidate("lapdog", 900)]

    assert choose_corrections("labtop", near, word_documents=1) == []
    assert choose_corrections("labtop", [SpellingCandidate("laptop", 25)], word_documents=1) == ["laptop"]


def test_query_requires_every_meaningful_word() -> None:
    query = query_builder.build_query(["lamp", "for", "my", "desk"], Lexicon())

    assert query.exact == "('lamp' & 'desk')"
    assert query.wide == "('lamp' & ('desk' | 'desk':*))"
    assert query.partial == "(('desk' | 'desk':*) | 'lamp')"
    assert query_builder.build_query(["the", "it"], Lexicon()).exact == "('the' & 'it')"
    assert query_builder.build_query(["lamp"], Lexicon()).partial is None


def test_synonyms_are_alternatives_of_words_and_phrases() -> None:
    lexicon = Lexicon(synonyms=[["iphone charger", "lightning cable"], ["gen", "generator"]])

    query = query_builder.build_query(["iphone", "chargers", "gen"], lexicon)

    assert "('lightning' <-> 'cable')" in query.wide
    assert "'generator'" in query.wide
    assert query.exact == "(('iphone' & 'chargers') & 'gen')"


def test_corrections_and_joined_words_are_alternatives() -> None:
    lexicon = Lexicon(documents={"earbuds": 3})
    corrected = {"lapotp": ["laptop", "lap top"]}

    assert "'earbuds'" in query_builder.build_query(["ear", "buds"], lexicon).wide
    query = query_builder.build_query(["lapotp", "bag"], Lexicon(), corrections=corrected)
    assert query.wide.startswith("(('lapotp' | 'laptop' | ('lap' <-> 'top')) & ")
    assert query_builder.corrected_words(["lapotp", "bag"], corrected) == ["laptop", "bag"]


def test_model_names_are_split() -> None:
    assert query_builder.build_query(["fx991"], Lexicon()).exact == "('fx991' | ('fx' & '991'))"


def test_query_estimates_matching_shares_from_frequencies() -> None:
    lexicon = Lexicon(
        documents={"lamp": 40},
        frequent={"new": LexemeFrequency(100, 5_000)},
        prefix_document_count=60,
        total_documents=10_000,
    )

    query = query_builder.build_query(["new", "lamp"], lexicon)

    assert query.share_exact == pytest.approx(0.01**0.5 * 0.004)
    assert query.share_in_title == pytest.approx(0.01**0.5 * 0.006)
    assert query.share_anywhere == pytest.approx(0.5**0.5 * 0.006)
    assert query.share_partial == pytest.approx(0.506)


def test_recall_counts_only_listings_that_fit_on_the_page() -> None:
    label = Label("lamp", "exact", ("Lamp",))
    hits = Outcome(label, relevant=20, titles=("Fan", *["Lamp, red"] * 9))
    few = Outcome(label, relevant=2, titles=("Lamp, red", "Fan"))

    assert (hits.recall, hits.reciprocal_rank) == (0.9, 0.5)
    assert (few.recall, few.reciprocal_rank) == (0.5, 1)
    assert Outcome(label, relevant=1, titles=()).reciprocal_rank == 0
    with pytest.raises(ValueError, match="no listing of the catalogue"):
        evaluate([label], catalogue=["Fan"], search=lambda _query: [])
