"""The AI provider: looks at words as an OpenAI-compatible API does."""
