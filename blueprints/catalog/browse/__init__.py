"""Product collections, product counters, and the vendor's inventory."""
