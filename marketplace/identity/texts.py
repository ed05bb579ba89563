"""Error messages of profiles and addresses."""

TOO_MANY_ADDRESSES = "You can save at most {limit} addresses. Remove an address first."
