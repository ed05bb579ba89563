"""Search, suggestions, synonyms and searches without results."""
