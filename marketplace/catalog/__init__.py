"""Catalog: categories, products, moderation, promotions and search."""
