"""Tables of the search. The database's own triggers keep documents true, whoever writes products."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, Integer, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, Entity, Timestamped

# Without a list of what is yet to be indexed: searches would read it through.
_GIN: dict[str, Any] = {"postgresql_using": "gin", "postgresql_with": {"fastupdate": "off"}}
_WITHOUT_DIGITS = text("word !~ '[0-9]'")


class SearchDocument(Base):
    """A published product, as the search sees it; a product that is hidden has none.

    It is a table of its own so that orders, which change stock, do not rewrite what is indexed. ``prior``
    is how popular the product was when it was last looked at, in coarse steps, then how well rated. ``title``
    holds title (weight A), tags (B) and category (C), as written and as stems; ``body`` all of it with the
    store's name (C) and the description (D), as stems. ``words`` are those of all but the description.
    """

    __tablename__ = "search_documents"
    __table_args__ = (
        Index("ix_search_documents_title", "title", **_GIN),
        Index("ix_search_documents_body", "body", **_GIN),
        Index("ix_search_documents_prior", text("prior DESC"), text("product_id DESC")),
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
    """A word of titles, tags, stores and categories, and how many documents had it at the last count.

    ``in_title`` is how many had it in what ``SearchDocument.title`` holds: in all that but the store.
    """

    __tablename__ = "search_terms"
    __table_args__ = (
        # Model numbers are no spelling of anything, and many.
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
    """A lexeme that very many documents hold: a search for it must not read them all."""

    __tablename__ = "search_lexemes"

    lexeme: Mapped[str] = mapped_column(primary_key=True)
    in_title: Mapped[int] = mapped_column(Integer)
    anywhere: Mapped[int] = mapped_column(Integer)


class SearchSynonyms(Timestamped, Entity):
    """Words and phrases that mean the same, folded; staff edit them."""

    __tablename__ = "search_synonyms"
    __table_args__ = (
        CheckConstraint("cardinality(terms) >= 2", name="terms"),
        Index("ix_search_synonyms_terms", "terms", postgresql_using="gin"),
    )

    terms: Mapped[list[str]]
    revision: Mapped[int] = mapped_column(server_default=text("1"))


class SearchMiss(Entity):
    """What was searched in vain on a day, and how often; it holds no personal data."""

    __tablename__ = "search_misses"
    __table_args__ = (UniqueConstraint("day", "campus_id", "query", postgresql_nulls_not_distinct=True),)

    query: Mapped[str]
    campus_id: Mapped[UUID | None] = mapped_column(ForeignKey("campuses.id"))
    day: Mapped[date]
    count: Mapped[int] = mapped_column(server_default=text("1"))
    last_at: Mapped[datetime]
