"""What the platform takes of a sale: the rate of the nearest category that has one, from a product's own up."""

# Of a category ``c``; null where neither it nor any above it has a rate of its own, so that it is the platform's.
COMMISSION_RATE_SQL = """(
    SELECT rated.commission_bps FROM unnest(c.lineage) WITH ORDINALITY AS above (id, depth)
        JOIN categories rated ON rated.id = above.id
    WHERE rated.commission_bps IS NOT NULL ORDER BY above.depth DESC LIMIT 1
)"""
# Whether ``c``, a category or one below it, takes the rate of the category ``:category_id``.
INHERITS_COMMISSION_RATE_SQL = """(
    c.lineage @> ARRAY[CAST(:category_id AS uuid)] AND NOT EXISTS (
        SELECT FROM categories nearer WHERE nearer.id = ANY(c.lineage) AND nearer.commission_bps IS NOT NULL
            AND nearer.id <> :category_id AND nearer.lineage @> ARRAY[CAST(:category_id AS uuid)])
)"""
