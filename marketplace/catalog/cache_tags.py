"""What cached content of the catalog depends on."""

PRODUCTS = "products"
"""Anything that a listing shows: titles, prices, pictures, whether something is in stock."""

TRENDING = "trending"
"""In which order products trend."""

CATEGORIES = "categories"
"""Which listings are published, and in which category."""

FLASH_SALES = "flash-sales"
"""Which flash sales run or are to come, and on what terms."""

BANNERS = "banners"
"""The banners that are shown."""

VIBES = "vibes"
"""The vibes that are shown, and which products are in them."""

FEATURED = "featured"
"""Which products are featured, and in what order."""
