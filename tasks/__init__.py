"""Background tasks: the only code that uses Huey. Tasks take ids, open a transaction and call the domain."""
