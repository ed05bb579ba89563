"""The demo: a purchase over HTTP, from browsing to the release of the money; ``python -m sandbox.demo``."""
