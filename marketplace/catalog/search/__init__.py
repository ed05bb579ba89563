"""Full-text search, suggestions and their upkeep."""
