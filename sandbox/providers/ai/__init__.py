"""A simulated AI provider with the moderation endpoint of an OpenAI-compatible API."""
