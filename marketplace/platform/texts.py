"""Texts of the platform: maintenance, features, halted payouts, campuses, hubs and public holidays."""

MAINTENANCE = "The platform is under maintenance. Try again later."
MAINTENANCE_WITH_MESSAGE = "The platform is under maintenance. {message}"
FEATURE_OFF = "The feature {feature} is switched off. Try again later."
PAYOUTS_HALTED = (
    "All payouts have been halted since {halted_at} ({reason})."
    " Two officers with the permission canManagePlatform can resume payouts with a `payout_resume` proposal."
)
HALT_CHANGED = (
    "Payouts are no longer halted, or there are new findings. Review the halt, then file a new proposal."
)

CAMPUS_NOT_FOUND = "Campus not found."
CAMPUS_SLUG_TAKEN = "Another campus already uses the slug {slug}."
TOO_MANY_DOMAINS = "A campus can have at most {limit} e-mail domains."
DOMAIN_TAKEN = "A campus already has the e-mail domain {domain}."
NOT_A_DOMAIN = "Must be a domain, such as unilag.edu.ng."
PUBLIC_PROVIDER = "Anybody can get an address of this provider. Enter a domain of the university."
SHARED_SUFFIX = "Many organisations share this suffix. Enter a domain of the university."
HUB_NOT_FOUND = "Hub not found."
HUB_NAME_TAKEN = "Another active hub of the campus already has this name."
TOO_MANY_HUBS = "A campus can have at most {limit} hubs."
COORDINATES_TOGETHER = "Send latitude and longitude together."
HOLIDAY_NOT_FOUND = "Public holiday not found."
HOLIDAY_EXISTS = "The day already has a holiday with this name."

CSP_MEDIA_TYPE = "Send the report as application/csp-report or application/reports+json."
CSP_FORM = "Must be an object with csp-report, or a list of at most 100 reports of the Reporting API."
