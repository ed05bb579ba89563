"""Search queries built from any text and any lexicon are valid in PostgreSQL."""

from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.search import query_builder
from marketplace.catalog.search.query_builder import LexemeFrequency, Lexicon
from marketplace.catalog.search.tokenizer import fold, mask_personal_data, tokenize
from marketplace.infra.db import Database

TEXTS = st.one_of(
    st.text(max_size=100),
    st.text(alphabet="ab'\"\\&|!<->():*%_ \t0123456789-,.éßøﷺ①", max_size=100),
    st.lists(
        st.sampled_from(["the", "it", "power", "bank", "fx991es", "20,000", "o'", "lamps"]), max_size=15
    ).map(" ".join),
)
WORDS = st.lists(st.text(alphabet="abcxyz019é日", min_size=1, max_size=12), min_size=1, max_size=10)


@pytest.fixture(scope="module")
def reading(services: object) -> Iterator[Session]:
    database: Database = services.database  # type: ignore[attr-defined]
    with database.reading() as session:
        yield session


def assert_valid_tsquery(session: Session, query: str) -> None:
    session.execute(text("SELECT to_tsquery('campus', :query) @@ to_tsvector('lamp')"), {"query": query})


@given(typed=TEXTS)
def test_any_text_builds_a_valid_query(reading: Session, typed: str) -> None:
    found = tokenize(typed)
    if not found:
        return
    query = query_builder.build_query(found, Lexicon())
    for part in (query.exact, query.wide, query.partial):
        if part is not None:
            assert_valid_tsquery(reading, part)


@given(
    typed=WORDS,
    synonyms=st.lists(
        st.lists(WORDS.map(lambda some: " ".join(some[:4])), min_size=2, max_size=4), max_size=4
    ),
    meant=st.dictionaries(
        st.integers(0, 9), st.lists(WORDS.map(lambda some: " ".join(some[:2])), max_size=2)
    ),
    total=st.integers(0, 100_000),
)
def test_any_lexicon_builds_a_valid_query(
    reading: Session, typed: list[str], synonyms: list[list[str]], meant: dict[int, list[str]], total: int
) -> None:
    given_words = [fold(word) for word in typed]
    groups = [[" ".join(given_words[:2]), *terms] for terms in synonyms]
    lexicon = Lexicon(
        documents={given_words[0]: 3},
        frequent={given_words[-1]: LexemeFrequency(7, 9)},
        prefix_document_count=5,
        synonyms=[[fold(term) for term in terms] for terms in groups],
        total_documents=total,
    )
    corrected = {
        given_words[place]: some for place, some in meant.items() if place < len(given_words) and some
    }

    query = query_builder.build_query(given_words, lexicon, corrections=corrected)

    for part in (query.exact, query.wide, query.partial):
        if part is not None:
            assert_valid_tsquery(reading, part)
    for share in (query.share_exact, query.share_in_title, query.share_anywhere, query.share_partial):
        assert 0 <= share <= 1
    assert query.share_exact <= query.share_in_title
    assert " ".join(query_builder.corrected_words(given_words, corrected))


@given(typed=st.text(max_size=100))
def test_tokenizing_and_masking_are_idempotent(typed: str) -> None:
    once = tokenize(typed)
    assert tokenize(" ".join(once), limit=len(once) + 1) == once
    assert mask_personal_data(mask_personal_data(typed)) == mask_personal_data(typed)


LATIN = [chr(code) for code in range(1, 0x250) if fold(chr(code)).isascii()]


@given(typed=st.text(alphabet=LATIN, max_size=60))
def test_database_and_python_fold_text_alike(reading: Session, typed: str) -> None:
    from_database = (
        reading.execute(text("SELECT search_words(:typed)"), {"typed": typed}).scalar_one().split()
    )
    from_python = tokenize(typed, limit=60)
    # The database appends parts of words after the words. Python cuts words off at 40 characters.
    assert [word[:40] for word in from_database[: len(from_python)]] == from_python
