"""Collections of products, counters, and the vendor's own inventory."""
