"""Adapters of what others run: one Protocol and one HTTP adapter each, over one shared client."""
