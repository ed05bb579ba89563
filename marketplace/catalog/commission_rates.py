"""Commission rates: the rate of the nearest category with its own rate, starting from the product's category."""

# Expects a category ``c``. Null if no category of the lineage has its own rate: then the platform's rate applies.
COMMISSION_RATE_SQL = """(
    SELECT rated.commission_bps FROM unnest(c.lineage) WITH ORDINALITY AS above (id, depth)
        JOIN categories rated ON rated.id = above.id
    WHERE rated.commission_bps IS NOT NULL ORDER BY above.depth DESC LIMIT 1
)"""
# True if ``c`` is the category ``:category_id`` or a subcategory that inherits its rate.
INHERITS_COMMISSION_RATE_SQL = """(
    c.lineage @> ARRAY[CAST(:category_id AS uuid)] AND NOT EXISTS (
        SELECT FROM categories nearer WHERE nearer.id = ANY(c.lineage) AND nearer.commission_bps IS NOT NULL
            AND nearer.id <> :category_id AND nearer.lineage @> ARRAY[CAST(:category_id AS uuid)])
)"""
