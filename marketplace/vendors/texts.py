"""Error messages of stores."""

CONTACT_DETAILS_FOUND = "A store's profile must not contain contact details. Remove them and try again."
CONTACT_DETAILS_FIELD = "Contains contact details ({kinds}). Remove these details."
