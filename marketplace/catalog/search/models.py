"""Tables of the search. Database triggers keep the documents current after every write of products."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, Integer, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, Entity, Timestamped

# Without a pending list, which every search would read.
_GIN: dict[str, Any] = {"postgresql_using": "gin", "postgresql_with": {"fastupdate": "off"}}
_WITHOUT_DIGITS = text("word !~ '[0-9]'")


class SearchDocument(Base):
    """The searchable form of a published product. Hidden products have no document.

    The table is separate from products, so that stock changes of orders do not rewrite indexed data. ``prior`` ranks
    by popularity in coarse steps, then by rating, as of the last refresh. ``title`` holds the title (weight A), tags
    (B) and category (C), both as written and as stems. ``body`` holds the same fields, the store name (C) and the
    description (D), as stems only. ``words`` holds all words except those of the description.
    """

    __tablename__ = "search_documents"
    __table_args__ = (
        Index("ix_search_documents_title", "title", **_GIN),
        Index("ix_search_documents_body", "body", **_GIN),
        # A scan by popularity evaluates filters on the entries of the index.
        Index(
            "ix_search_documents_prior",
            text("prior DESC"),
            text("product_id DESC"),
            postgresql_include=["vendor_id", "campus_id", "category_id", "price_minor", "condition"],
        ),
    )

    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id", ondelete="CASCADE"), primary_key=True)
    vendor_id: Mapped[UUID]
    campus_id: Mapped[UUID]
    category_id: Mapped[UUID]
    price_minor: Mapped[int]
    condition: Mapped[str]
    prior: Mapped[int] = mapped_column(Integer)
    words: Mapped[str]
    title: Mapped[Any] = mapped_column(TSVECTOR)
    body: Mapped[Any] = mapped_column(TSVECTOR)


class SearchTerm(Base):
    """A word of titles, tags, stores and categories with its number of documents at the last count.

    ``in_title`` counts documents with the word in ``SearchDocument.title``, which excludes the store name.
    """

    __tablename__ = "search_terms"
    __table_args__ = (
        # Model numbers are numerous and are never spelling corrections.
        Index(
            "ix_search_terms_word",
            "word",
            postgresql_using="gin",
            postgresql_ops={"word": "gin_trgm_ops"},
            postgresql_where=_WITHOUT_DIGITS,
        ),
        Index("ix_search_terms_length", text("length(word)"), postgresql_where=_WITHOUT_DIGITS),
        Index("ix_search_terms_beginning", "word", postgresql_ops={"word": "text_pattern_ops"}),
    )

    word: Mapped[str] = mapped_column(primary_key=True)
    documents: Mapped[int] = mapped_column(Integer)
    in_title: Mapped[int] = mapped_column(Integer)


class SearchLexeme(Base):
    """A lexeme of very many documents. A search for such a lexeme must not read all of them."""

    __tablename__ = "search_lexemes"

    lexeme: Mapped[str] = mapped_column(primary_key=True)
    in_title: Mapped[int] = mapped_column(Integer)
    anywhere: Mapped[int] = mapped_column(Integer)


class SearchSynonyms(Timestamped, Entity):
    """A group of folded words and phrases with the same meaning, edited by staff."""

    __tablename__ = "search_synonyms"
    __table_args__ = (
        CheckConstraint("cardinality(terms) >= 2", name="terms"),
        Index("ix_search_synonyms_terms", "terms", postgresql_using="gin"),
    )

    terms: Mapped[list[str]]
    revision: Mapped[int] = mapped_column(server_default=text("1"))


class CategorySearchMiss(Base):
    """A query in a category without results on a day, with its count. The row holds no personal data."""

    __tablename__ = "category_search_misses"
    __table_args__ = (Index("ix_category_search_misses_day", "day"),)

    category_id: Mapped[UUID] = mapped_column(ForeignKey("categories.id"), primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    query: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int] = mapped_column(server_default=text("1"))


class SearchMiss(Entity):
    """A query without results on a day, with its count. The row holds no personal data."""

    __tablename__ = "search_misses"
    __table_args__ = (UniqueConstraint("day", "campus_id", "query", postgresql_nulls_not_distinct=True),)

    query: Mapped[str]
    campus_id: Mapped[UUID | None] = mapped_column(ForeignKey("campuses.id"))
    day: Mapped[date]
    count: Mapped[int] = mapped_column(server_default=text("1"))
    last_at: Mapped[datetime]
