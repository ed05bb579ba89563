"""Public product listings and the vendor's inventory."""
