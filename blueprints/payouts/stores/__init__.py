"""Store profiles with their bank accounts."""
