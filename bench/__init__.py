"""Measurements of speed, each beside the floor that it is compared with; ``python -m bench --help`` tells more."""
