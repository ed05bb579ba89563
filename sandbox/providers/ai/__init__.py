"""A simulated AI provider: moderations and chat completions of an OpenAI-compatible API."""
