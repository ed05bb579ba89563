"""Routes of favourites."""
