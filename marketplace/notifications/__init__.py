"""The feed of notifications: what people are told, once for each cause."""
