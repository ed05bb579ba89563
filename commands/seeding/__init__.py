"""The demo data. Every run makes the same rows, so existing rows stay as they are."""
