"""Promotions: banners, featured products, flash sales and vibes."""
