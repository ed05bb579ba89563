"""Orders over HTTP, for buyers, vendors and staff."""
