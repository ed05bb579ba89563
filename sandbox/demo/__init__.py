"""The demo: one purchase over HTTP, from browsing to money released; ``python -m sandbox.demo``."""
