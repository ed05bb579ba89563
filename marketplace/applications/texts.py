"""Error messages and notifications of vendor applications."""

SLUG_FORMAT = (
    "Must have 3 to 40 lower-case letters, digits and hyphens, and begin and end with a letter or digit."
)
SLUG_RESERVED = "This address is reserved. Choose another address."
SLUG_TAKEN = "This address is taken, or looks like the address of another store. Choose another address."
ALREADY_STORE = "Your account already has a store."
STAFF_CANNOT_APPLY = "Staff accounts cannot have a store. Use another account."
ALREADY_APPLIED = "You already have an open application. Withdraw the application, or wait for the decision."
APPLICATION_NOT_FOUND = "Application not found."
PHONE_NOT_VERIFIED = (
    "Must be your verified phone number. Verify the number with POST /api/users/me/phone/code first."
)
NAME_MISSING = "Your profile needs your full name. Set the name first."
CAMPUS_NOT_FOUND = "Campus not found."
CATEGORY_NOT_FOUND = "Category not found."
APPLICATION_FAULTS = "The application has faults. See invalid_params."
CONTACT_DETAILS_FIELD = "Contains contact details ({kinds}). Remove these details."
OWN_APPLICATION = "You cannot decide about your own application. Another officer must decide."
PHONE_NO_LONGER_VERIFIED = (
    "The applicant's phone number is no longer verified. Ask the applicant to verify a number."
)
ACCOUNT_NAME_DIFFERS = (
    "The bank account belongs to {account_name}, but the profile's name differs."
    " Ask the applicant to correct the account or the name."
)
ACCOUNT_NOT_ACTIVE = "The applicant's account is {status}. Decide about the account first."

INFO_REQUESTED_TITLE = "We have a question about your store"
INFO_REQUESTED_BODY = "{question} Answer in your application, then we continue."
APPROVED_TITLE = "Your store is open"
APPROVED_BODY = "Your application was approved. \u201c{store_name}\u201d can now publish its first listing."
REJECTED_TITLE = "Your application was not approved"
REJECTED_BODY = "Reason: {reason} You can apply again."
