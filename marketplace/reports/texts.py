"""Error messages and notifications of reports."""

TARGET_NOT_FOUND = (
    "The reported content was not found. Reload the page, and check whether the content still exists."
)
OWN_CONTENT = "You cannot report your own content."
ALREADY_REPORTED = "You have already reported this. We will notify you of the decision."
CASE_NOT_FOUND = "Report not found."
CASE_DECIDED = "The reports are already {status}."
PARTY_TO_CASE = "You reported this content, or the content is yours. Another officer must decide."

REPORT_UPHELD_TITLE = "We acted on your report"
REPORT_UPHELD_BODY = "Thank you. The {target} that you reported breaks our rules, and we have acted."
REPORT_DISMISSED_TITLE = "We have checked your report"
REPORT_DISMISSED_BODY = "We checked the {target} that you reported, and found no breach of our rules."
PERSON_REPORT_UPHELD_BODY = "Thank you. We checked the person that you reported, and have acted."
TARGET_NAMES = {"product": "listing", "review": "review", "user": "person", "message": "message"}

# Shown to the vendor as the reason to reject or take down a listing.
LISTING_REASON = "Buyers reported this listing. {reason}"
