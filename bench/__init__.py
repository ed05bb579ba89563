"""Performance measurements. Each figure is compared with floors on the same machine; see ``python -m bench --help``."""
