"""HTTP routes of the catalog: products, moderation, promotions and search."""
