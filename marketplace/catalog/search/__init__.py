"""Full-text search, suggestions and index maintenance."""
