"""Uploaded images: upload, renditions and cleanup."""
