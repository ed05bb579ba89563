"""Texts of support."""

MEDIA_TOO_LARGE = "The file is larger than {limit} MB."
MEDIA_UNAVAILABLE = "The messaging provider no longer has the file."
