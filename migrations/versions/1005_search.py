"""Search of the catalog: documents, words, synonyms and searches without results."""

from alembic import op

revision = "1005"
down_revision = "1004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, functions and triggers."""
    # Stem without stop words: "it" and "the" occur in titles, and begin other words.
    op.execute("CREATE TEXT SEARCH DICTIONARY campus_stem (TEMPLATE = snowball, LANGUAGE = english)")
    op.execute("CREATE TEXT SEARCH CONFIGURATION campus (COPY = english)")
    op.execute("ALTER TEXT SEARCH CONFIGURATION campus ALTER MAPPING REPLACE english_stem WITH campus_stem")
    # Disable `fastupdate`: searches would read the pending list, and an occasional write would have to flush the
    # list.
    op.execute("""
    CREATE TABLE search_documents (
        product_id uuid CONSTRAINT pk_search_documents PRIMARY KEY
            CONSTRAINT fk_search_documents_product_id REFERENCES products ON DELETE CASCADE,
        vendor_id uuid NOT NULL,
        campus_id uuid NOT NULL,
        category_id uuid NOT NULL,
        price_minor bigint NOT NULL,
        condition text NOT NULL,
        prior integer NOT NULL,
        words text NOT NULL,
        title tsvector NOT NULL,
        body tsvector NOT NULL
    );
    CREATE INDEX ix_search_documents_prior ON search_documents (prior DESC, product_id DESC)
        INCLUDE (vendor_id, campus_id, category_id, price_minor, condition);
    CREATE INDEX ix_search_documents_body ON search_documents USING gin (body) WITH (fastupdate = off);
    CREATE INDEX ix_search_documents_title ON search_documents USING gin (title) WITH (fastupdate = off);
    """)
    op.execute("""
    CREATE TABLE search_terms (
        word text CONSTRAINT pk_search_terms PRIMARY KEY,
        documents integer NOT NULL,
        in_title integer NOT NULL
    );
    CREATE INDEX ix_search_terms_length ON search_terms (length(word)) WHERE word !~ '[0-9]';
    CREATE INDEX ix_search_terms_beginning ON search_terms (word text_pattern_ops);
    CREATE INDEX ix_search_terms_word ON search_terms USING gin (word gin_trgm_ops) WHERE word !~ '[0-9]';
    """)
    op.execute("""
    CREATE TABLE search_lexemes (
        lexeme text CONSTRAINT pk_search_lexemes PRIMARY KEY,
        in_title integer NOT NULL,
        anywhere integer NOT NULL
    );
    """)
    op.execute("""
    CREATE TABLE search_synonyms (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_search_synonyms PRIMARY KEY,
        terms text[] NOT NULL,
        revision bigint NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_search_synonyms_ck_search_synonyms_terms CHECK (cardinality(terms) >= 2)
    );
    CREATE INDEX ix_search_synonyms_terms ON search_synonyms USING gin (terms);
    """)
    op.execute("""
    CREATE TABLE search_misses (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_search_misses PRIMARY KEY,
        query text NOT NULL,
        campus_id uuid CONSTRAINT fk_search_misses_campus_id REFERENCES campuses,
        day date NOT NULL,
        count bigint NOT NULL DEFAULT 1,
        last_at timestamptz NOT NULL,
        CONSTRAINT uq_search_misses_day_campus_id_query UNIQUE NULLS NOT DISTINCT (day, campus_id, query)
    );
    """)
    _create_functions()
    _create_triggers()


def _create_functions() -> None:
    # Fold accents and case. ASCII, the usual case, takes the fast path.
    op.execute(r"""
    CREATE FUNCTION search_fold(given text) RETURNS text STABLE STRICT PARALLEL SAFE LANGUAGE sql
    RETURN lower(CASE WHEN octet_length(given) = length(given) THEN given ELSE
        unaccent(regexp_replace(normalize(given, NFKD), '[\u0300-\u036f]', '', 'g')) END)
    """)
    # Write a text as words separated by spaces. "fx-991ES" also yields "fx991es" and the parts "991" and "es".
    op.execute(r"""
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
    """)
    # Rank by popularity in coarse steps, then by rating. Coarse steps avoid rewriting the document after every sale.
    op.execute("""
    CREATE FUNCTION search_prior(popularity bigint, rating_bayes bigint) RETURNS integer
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql
    RETURN CAST(round(20 * ln(1 + greatest(popularity, 0)::float8)) AS integer) * 8
        + CAST(least(rating_bayes / 1000, 7) AS integer)
    """)
    # Words as written match by prefix, stems match inflections. The separator `_` after each part keeps phrases from
    # matching across parts.
    op.execute("""
    CREATE FUNCTION search_vector(words text, weight "char") RETURNS tsvector STABLE STRICT PARALLEL SAFE LANGUAGE sql
    RETURN setweight(to_tsvector('simple', words) || '_:1'::tsvector || to_tsvector('campus', words)
        || '_:1'::tsvector, weight)
    """)
    op.execute("""
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
    """)
    op.execute("""
    CREATE FUNCTION search_products_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE ids uuid[] := ARRAY(SELECT id FROM inserted WHERE status = 'published');
    BEGIN
        IF ids <> '{}' THEN PERFORM search_write_documents(ids); END IF;
        RETURN NULL;
    END $$
    """)
    op.execute("""
    CREATE FUNCTION search_product_updated() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM search_write_documents(ARRAY[NEW.id]);
        RETURN NULL;
    END $$
    """)
    op.execute("""
    CREATE FUNCTION search_store_named() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.search := search_vector(search_words(NEW.display_name), 'A');
        RETURN NEW;
    END $$
    """)
    op.execute("""
    CREATE FUNCTION search_store_renamed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM search_write_documents(
            ARRAY(SELECT id FROM products WHERE vendor_id = NEW.id AND status = 'published'));
        RETURN NULL;
    END $$
    """)
    op.execute("""
    CREATE FUNCTION search_category_renamed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM search_write_documents(
            ARRAY(SELECT id FROM products WHERE category_id = NEW.id AND status = 'published'));
        RETURN NULL;
    END $$
    """)


def _create_triggers() -> None:
    # A bulk INSERT is indexed once for all rows. UPDATE needs row triggers: a transition table excludes a column
    # list.
    op.execute("""
    CREATE TRIGGER search_inserted AFTER INSERT ON products REFERENCING NEW TABLE AS inserted
        FOR EACH STATEMENT EXECUTE FUNCTION search_products_inserted()
    """)
    # Stock and counters are left out, so that orders and views do not rewrite the document.
    op.execute("""
    CREATE TRIGGER search_updated
        AFTER UPDATE OF title, description, tags, vendor_id, campus_id, category_id, price_minor, condition, status
        ON products FOR EACH ROW WHEN (OLD.status = 'published' OR NEW.status = 'published')
        EXECUTE FUNCTION search_product_updated()
    """)
    op.execute("""
    CREATE TRIGGER search_named BEFORE INSERT OR UPDATE OF display_name, search ON vendor_profiles
        FOR EACH ROW EXECUTE FUNCTION search_store_named()
    """)
    op.execute("""
    CREATE TRIGGER search_renamed AFTER UPDATE OF display_name ON vendor_profiles
        FOR EACH ROW WHEN (OLD.display_name <> NEW.display_name) EXECUTE FUNCTION search_store_renamed()
    """)
    op.execute("""
    CREATE TRIGGER search_category_renamed AFTER UPDATE OF name ON categories
        FOR EACH ROW WHEN (OLD.name <> NEW.name) EXECUTE FUNCTION search_category_renamed()
    """)


def downgrade() -> None:
    """Drop the tables, functions and triggers."""
    for trigger in (
        "search_category_renamed ON categories",
        "search_renamed ON vendor_profiles",
        "search_named ON vendor_profiles",
        "search_updated ON products",
        "search_inserted ON products",
    ):
        op.execute(f"DROP TRIGGER {trigger}")
    for function in (
        "search_category_renamed",
        "search_store_renamed",
        "search_store_named",
        "search_product_updated",
        "search_products_inserted",
        "search_write_documents",
        "search_vector",
        "search_prior",
        "search_words",
        "search_fold",
    ):
        op.execute(f"DROP FUNCTION {function}")
    op.execute("DROP TABLE search_misses, search_synonyms, search_lexemes, search_terms, search_documents")
    op.execute("DROP TEXT SEARCH CONFIGURATION campus")
    op.execute("DROP TEXT SEARCH DICTIONARY campus_stem")
