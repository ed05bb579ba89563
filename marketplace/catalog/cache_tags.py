"""Cache tags of the catalog: the data that cached responses depend on."""

PRODUCTS = "products"
"""Data that listings show: titles, prices, images and whether a product is in stock."""

TRENDING = "trending"
"""The order of trending products."""

CATEGORIES = "categories"
"""The published listings of each category."""

FLASH_SALES = "flash-sales"
"""Running and upcoming flash sales with their terms."""

BANNERS = "banners"
"""Running banners."""

VIBES = "vibes"
"""Running vibes and their products."""

FEATURED = "featured"
"""Featured products and their order."""
