"""Texts of profiles, addresses, the verification of phone numbers, and shifts of representatives."""

TOO_MANY_ADDRESSES = "You can save at most {limit} addresses. Remove an address first."
ACCOUNT_ERASED = "The personal data of this account was erased. The account cannot be used or created again."
PHONE_ALREADY_VERIFIED = "This phone number is already verified."
TOO_MANY_CODES_THIS_MINUTE = (
    "Too many codes were sent to this number. Wait a minute before you request another code."
)
TOO_MANY_CODES_TODAY = "You have requested too many codes today. Use the latest code, or try again tomorrow."
NO_VALID_CODE = "No valid code for this account. Request a new code."
WRONG_CODE = "The code is wrong. attemptsLeft shows the remaining attempts."
SMS_NOT_SENT = "The SMS was not sent. Check the phone number, or try again in a few minutes."
# One SMS in the GSM alphabet: at most 160 characters.
PHONE_CODE_SMS = (
    "{code} is your Campus Marketplace code. It expires in 10 minutes. Never share it with anyone."
)

HUB_NOT_FOUND = "Hub not found."
NOT_A_REP = "Must be an active campus representative of the hub's campus."
SHIFTS_OVERLAP = "The representative has another shift at this time."
SHIFT_NOT_FOUND = "Shift not found."
TOO_MANY_SHIFTS = "A hub can have at most {limit} shifts."
