"""Products: listing, detail, creation, changes and images."""
