"""Product images: upload, renditions and cleanup."""
