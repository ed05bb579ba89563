"""Error messages of profiles and addresses."""

TOO_MANY_ADDRESSES = "You can save at most {limit} addresses. Remove an address first."
ACCOUNT_ERASED = "The personal data of this account was erased. The account cannot be used or created again."
