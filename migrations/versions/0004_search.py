"""Searching the catalog: words, synonyms, and what was searched in vain."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_EXTENSIONS = ("unaccent", "pg_trgm", "fuzzystrmatch")

# Stems without stop words: "it" and "the" are words of titles, and the beginnings of others.
_CONFIGURATION = (
    "CREATE TEXT SEARCH DICTIONARY campus_stem (TEMPLATE = snowball, LANGUAGE = english)",
    "CREATE TEXT SEARCH CONFIGURATION campus (COPY = english)",
    "ALTER TEXT SEARCH CONFIGURATION campus ALTER MAPPING REPLACE english_stem WITH campus_stem",
)

_FUNCTIONS = (
    # Accents and case folded; most texts are ASCII, and quick.
    r"""
    CREATE FUNCTION search_fold(given text) RETURNS text STABLE STRICT PARALLEL SAFE LANGUAGE sql
    RETURN lower(CASE WHEN octet_length(given) = length(given) THEN given ELSE
        unaccent(regexp_replace(normalize(given, NFKD), '[\u0300-\u036f]', '', 'g')) END)
    """,
    # A text as words between blanks. Behind them, for "fx-991ES": "fx991es", and its parts "991" and "es".
    r"""
    CREATE FUNCTION search_words(given text) RETURNS text STABLE STRICT PARALLEL SAFE LANGUAGE plpgsql AS $$
    DECLARE
        folded text := translate(search_fold(given), U&'''\2019\2018`', '');
        words text;
        found text[];
    BEGIN
        IF folded ~ '[0-9][,.][0-9]' THEN
            folded := regexp_replace(folded, '([0-9])[,.](?=[0-9]{3}(?![0-9]))', '\1', 'g');
        END IF;
        words := btrim(regexp_replace(folded, '[^[:alnum:]]+', ' ', 'g'));
        IF folded ~ '[[:alnum:]]-[[:alnum:]]' THEN
            FOR found IN SELECT regexp_matches(folded, '[[:alnum:]]+(?:-[[:alnum:]]+)+', 'g') LOOP
                words := words || ' ' || replace(found[1], '-', '');
            END LOOP;
        END IF;
        IF words ~ '[0-9][[:alpha:]]|[[:alpha:]][0-9]' THEN
            FOR found IN SELECT regexp_matches(words, '[[:alnum:]]*(?:[0-9][[:alpha:]]|[[:alpha:]][0-9])[[:alnum:]]*', 'g')
            LOOP
                words := words || ' ' || regexp_replace(
                    found[1], '([0-9])(?=[[:alpha:]])|([[:alpha:]])(?=[0-9])', '\1\2 ', 'g');
            END LOOP;
        END IF;
        RETURN words;
    END $$
    """,
    # How popular a listing is, in steps so coarse that one sale more seldom moves it, then how well it is rated.
    """
    CREATE FUNCTION search_prior(popularity bigint, rating_bayes bigint) RETURNS integer
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql
    RETURN CAST(round(20 * ln(1 + greatest(popularity, 0)::float8)) AS integer) * 8
        + CAST(least(rating_bayes / 1000, 7) AS integer)
    """,
    # As written and as stems: the one is found by its beginning, the other in any inflection. A mark that is no
    # word stands behind each, or the last word and the first of what follows would be a phrase.
    """
    CREATE FUNCTION search_vector(words text, weight "char") RETURNS tsvector STABLE STRICT PARALLEL SAFE LANGUAGE sql
    RETURN setweight(to_tsvector('simple', words) || '_:1'::tsvector || to_tsvector('campus', words)
        || '_:1'::tsvector, weight)
    """,
    """
    CREATE FUNCTION search_write_documents(ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM search_documents d USING products p
            WHERE d.product_id = ANY(ids) AND p.id = d.product_id AND p.status <> 'published';
        WITH worded AS MATERIALIZED (
            SELECT p.*, search_words(p.title) AS title_words, search_words(array_to_string(p.tags, ' ')) AS tag_words,
                search_words(v.display_name) AS store_words, search_words(c.name) AS category_words
            FROM products p JOIN vendor_profiles v ON v.id = p.vendor_id JOIN categories c ON c.id = p.category_id
            WHERE p.id = ANY(ids) AND p.status = 'published'
        ), written AS (
            INSERT INTO search_documents AS d (product_id, vendor_id, campus_id, category_id, price_minor, condition,
                prior, words, title, body)
            SELECT id, vendor_id, campus_id, category_id, price_minor, condition,
                search_prior(popularity, rating_bayes),
                concat_ws(' ', title_words, tag_words, store_words, category_words),
                search_vector(title_words, 'A') || search_vector(tag_words, 'B') || search_vector(category_words, 'C'),
                setweight(to_tsvector('campus', title_words), 'A') || setweight(to_tsvector('campus', tag_words), 'B')
                    || setweight(to_tsvector('campus', store_words || ' ' || category_words), 'C')
                    || setweight(to_tsvector('english', search_words(description)), 'D')
            FROM worded
            ON CONFLICT (product_id) DO UPDATE SET vendor_id = excluded.vendor_id, campus_id = excluded.campus_id,
                category_id = excluded.category_id, price_minor = excluded.price_minor,
                condition = excluded.condition, prior = excluded.prior, words = excluded.words,
                title = excluded.title, body = excluded.body
            RETURNING d.words
        )
        INSERT INTO search_terms (word, documents, in_title)
            SELECT word, 1, 1 FROM (
                SELECT DISTINCT unnest(tsvector_to_array(to_tsvector('simple', words))) AS word FROM written
            ) found
            WHERE length(word) BETWEEN 2 AND 40
            ORDER BY word
            ON CONFLICT DO NOTHING;
    END $$
    """,
    """
    CREATE FUNCTION search_products_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE ids uuid[] := ARRAY(SELECT id FROM inserted WHERE status = 'published');
    BEGIN
        IF ids <> '{}' THEN PERFORM search_write_documents(ids); END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION search_product_updated() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM search_write_documents(ARRAY[NEW.id]);
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION search_store_named() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.search := search_vector(search_words(NEW.display_name), 'A');
        RETURN NEW;
    END $$
    """,
    """
    CREATE FUNCTION search_store_renamed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM search_write_documents(
            ARRAY(SELECT id FROM products WHERE vendor_id = NEW.id AND status = 'published'));
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION search_category_renamed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM search_write_documents(
            ARRAY(SELECT id FROM products WHERE category_id = NEW.id AND status = 'published'));
        RETURN NULL;
    END $$
    """,
)

_TRIGGERS = (
    # Of many rows at once, as bulk loads insert them; an UPDATE's trigger of columns can only be of single rows.
    """
    CREATE TRIGGER search_inserted AFTER INSERT ON products REFERENCING NEW TABLE AS inserted
        FOR EACH STATEMENT EXECUTE FUNCTION search_products_inserted()
    """,
    # Stock and counters are not among them: orders and views leave the index alone.
    """
    CREATE TRIGGER search_updated
        AFTER UPDATE OF title, description, tags, vendor_id, campus_id, category_id, price_minor, condition, status
        ON products FOR EACH ROW WHEN (OLD.status = 'published' OR NEW.status = 'published')
        EXECUTE FUNCTION search_product_updated()
    """,
    """
    CREATE TRIGGER search_named BEFORE INSERT OR UPDATE OF display_name, search ON vendor_profiles
        FOR EACH ROW EXECUTE FUNCTION search_store_named()
    """,
    """
    CREATE TRIGGER search_renamed AFTER UPDATE OF display_name ON vendor_profiles
        FOR EACH ROW WHEN (OLD.display_name <> NEW.display_name) EXECUTE FUNCTION search_store_renamed()
    """,
    """
    CREATE TRIGGER search_category_renamed AFTER UPDATE OF name ON categories
        FOR EACH ROW WHEN (OLD.name <> NEW.name) EXECUTE FUNCTION search_category_renamed()
    """,
)
_DROPS = (
    "TRIGGER search_category_renamed ON categories",
    "TRIGGER search_renamed ON vendor_profiles",
    "TRIGGER search_named ON vendor_profiles",
    "TRIGGER search_updated ON products",
    "TRIGGER search_inserted ON products",
    "FUNCTION search_category_renamed",
    "FUNCTION search_store_renamed",
    "FUNCTION search_store_named",
    "FUNCTION search_product_updated",
    "FUNCTION search_products_inserted",
    "FUNCTION search_write_documents",
    "FUNCTION search_vector",
    "FUNCTION search_prior",
    "FUNCTION search_words",
    "FUNCTION search_fold",
)

# What is called by several names on a Nigerian campus; staff change the list.
_SYNONYMS = (
    ("keke", "keke napep", "tricycle"),
    ("okada", "motorcycle", "motorbike"),
    ("hostel", "hall", "hostel room", "dormitory"),
    ("iphone charger", "iphone cable", "lightning cable"),
    ("charger", "charging cable", "adapter"),
    ("type c", "usb c"),
    ("textbook", "course book", "coursebook"),
    ("past question", "past questions", "pq"),
    ("gst", "general studies"),
    ("laptop", "notebook computer"),
    ("phone", "mobile phone", "handset", "smartphone"),
    ("power bank", "powerbank", "portable charger"),
    ("okrika", "thrift", "fairly used", "second hand", "bend down select"),
    ("gen", "generator"),
    ("gas cooker", "gas stove", "camp gas"),
    ("hot plate", "electric cooker", "electric stove"),
    ("flash drive", "usb stick", "pen drive", "memory stick"),
    ("hard drive", "hard disk", "hdd"),
    ("earbuds", "earpods", "airpods", "ear buds", "earphones"),
    ("headphones", "headset"),
    ("speaker", "bluetooth speaker", "sound box"),
    ("phone pouch", "phone case", "phone cover"),
    ("screen guard", "screen protector", "tempered glass"),
    ("extension box", "extension cord", "power strip", "surge protector"),
    ("fridge", "refrigerator", "freezer"),
    ("pressing iron", "electric iron", "cloth iron"),
    ("mattress", "foam"),
    ("bedsheet", "bed sheet", "bedspread", "duvet"),
    ("mosquito net", "bed net"),
    ("lab coat", "laboratory coat", "ward coat"),
    ("sneakers", "trainers", "canvas shoes", "kicks"),
    ("slippers", "slides", "sandals"),
    ("trousers", "pants"),
    ("gown", "dress"),
    ("kaftan", "caftan", "senator wear"),
    ("wig", "human hair", "braids"),
    ("attachment", "hair extension", "hair extensions"),
    ("perfume", "fragrance", "cologne"),
    ("sunscreen", "sun cream"),
    ("noodles", "indomie"),
    ("garri", "gari", "eba"),
    ("provisions", "foodstuff", "groceries"),
    ("soft drink", "mineral", "minerals"),
    ("jersey", "football shirt"),
    ("bicycle", "bike"),
    ("television", "tv"),
    ("playstation 4", "ps4"),
    ("playstation 5", "ps5"),
)


def upgrade() -> None:
    """Make the search's tables, have triggers keep them, and fill them with what is there."""
    for extension in _EXTENSIONS:
        op.execute(f"CREATE EXTENSION IF NOT EXISTS {extension}")
    for statement in _CONFIGURATION:
        op.execute(statement)
    _make_documents()
    _make_words()
    for statement in (*_FUNCTIONS, *_TRIGGERS):
        op.execute(statement)
    # The trigger of names fills the column in.
    op.execute("UPDATE vendor_profiles SET search = NULL")
    op.alter_column("vendor_profiles", "search", nullable=False)
    op.execute("SELECT search_write_documents(ARRAY(SELECT id FROM products WHERE status = 'published'))")
    synonyms = sa.table("search_synonyms", sa.column("terms", sa.ARRAY(sa.Text())))
    op.bulk_insert(synonyms, [{"terms": list(terms)} for terms in _SYNONYMS])


def _make_documents() -> None:
    op.create_table(
        "search_documents",
        sa.Column("product_id", sa.Uuid(), nullable=False),
        sa.Column("vendor_id", sa.Uuid(), nullable=False),
        sa.Column("campus_id", sa.Uuid(), nullable=False),
        sa.Column("category_id", sa.Uuid(), nullable=False),
        sa.Column("price_minor", sa.BigInteger(), nullable=False),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.Column("prior", sa.Integer(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("title", postgresql.TSVECTOR(), nullable=False),
        sa.Column("body", postgresql.TSVECTOR(), nullable=False),
        sa.ForeignKeyConstraint(
            ["product_id"], ["products.id"], name="fk_search_documents_product_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("product_id", name="pk_search_documents"),
    )
    # Without a list of what is yet to be indexed: searches would read it through, and one write in many
    # would have to work it off.
    terms = {"postgresql_using": "gin", "postgresql_with": {"fastupdate": "off"}}
    op.create_index("ix_search_documents_title", "search_documents", ["title"], **terms)
    op.create_index("ix_search_documents_body", "search_documents", ["body"], **terms)
    op.create_index(
        "ix_search_documents_prior", "search_documents", [sa.text("prior DESC"), sa.text("product_id DESC")]
    )
    op.add_column("vendor_profiles", sa.Column("search", postgresql.TSVECTOR(), nullable=True))
    op.create_index("ix_vendor_profiles_search", "vendor_profiles", ["search"], **terms)


def _make_words() -> None:
    op.create_table(
        "search_terms",
        sa.Column("word", sa.Text(), nullable=False),
        sa.Column("documents", sa.Integer(), nullable=False),
        sa.Column("in_title", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("word", name="pk_search_terms"),
    )
    op.create_index(
        "ix_search_terms_word",
        "search_terms",
        ["word"],
        postgresql_using="gin",
        postgresql_ops={"word": "gin_trgm_ops"},
        postgresql_where=sa.text("word !~ '[0-9]'"),
    )
    op.create_index(
        "ix_search_terms_length",
        "search_terms",
        [sa.text("length(word)")],
        postgresql_where=sa.text("word !~ '[0-9]'"),
    )
    op.create_index(
        "ix_search_terms_beginning", "search_terms", ["word"], postgresql_ops={"word": "text_pattern_ops"}
    )
    op.create_table(
        "search_lexemes",
        sa.Column("lexeme", sa.Text(), nullable=False),
        sa.Column("in_title", sa.Integer(), nullable=False),
        sa.Column("anywhere", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("lexeme", name="pk_search_lexemes"),
    )
    op.create_table(
        "search_synonyms",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("terms", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("cardinality(terms) >= 2", name="ck_search_synonyms_terms"),
        sa.PrimaryKeyConstraint("id", name="pk_search_synonyms"),
    )
    op.create_index("ix_search_synonyms_terms", "search_synonyms", ["terms"], postgresql_using="gin")
    op.create_table(
        "search_misses",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("campus_id", sa.Uuid(), nullable=True),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("count", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("last_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["campus_id"], ["campuses.id"], name="fk_search_misses_campus_id"),
        sa.UniqueConstraint(
            "day",
            "campus_id",
            "query",
            name="uq_search_misses_day_campus_id_query",
            postgresql_nulls_not_distinct=True,
        ),
        sa.PrimaryKeyConstraint("id", name="pk_search_misses"),
    )


def downgrade() -> None:
    """Take it all back, the extensions too."""
    for thing in _DROPS:
        op.execute(f"DROP {thing}")
    for table in ("search_misses", "search_synonyms", "search_lexemes", "search_terms", "search_documents"):
        op.drop_table(table)
    op.drop_index("ix_vendor_profiles_search", table_name="vendor_profiles")
    op.drop_column("vendor_profiles", "search")
    op.execute("DROP TEXT SEARCH CONFIGURATION campus")
    op.execute("DROP TEXT SEARCH DICTIONARY campus_stem")
    for extension in _EXTENSIONS:
        op.execute(f"DROP EXTENSION {extension}")
