"""The operator's command line, one module per group; ``marketplace --help`` begins it."""
