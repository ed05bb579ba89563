"""What cached content of the catalog depends on."""

PRODUCTS = "products"
"""Anything that a listing shows: titles, prices, pictures, whether something is in stock."""

CATEGORIES = "categories"
"""Which listings are published, and in which category."""
