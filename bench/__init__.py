"""Performance measurements; see ``python -m bench --help``.

A figure is a measurement of the application. A floor is the minimum cost of the same work on the same machine.
"""
