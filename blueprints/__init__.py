"""HTTP only: no SQL and no business rule."""
