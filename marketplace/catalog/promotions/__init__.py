"""Promotions by staff: flash sales, banners, vibes and featured products."""
