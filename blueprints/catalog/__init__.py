"""The catalog: products and categories."""
