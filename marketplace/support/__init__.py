"""Support: what customers write to us, and who they are."""
