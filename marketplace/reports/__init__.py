"""Reports of products, reviews and people: submit, hide automatically, and decide by staff."""
