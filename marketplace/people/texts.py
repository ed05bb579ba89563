"""Error messages and notifications of the administration of people."""

PERSON_NOT_FOUND = "Person not found."
PERSON_ERASED = "The data of this person was erased. The account cannot be changed."
OWN_ROLE = "You cannot change your own role. Ask another administrator."
LAST_ADMIN = "This person is the last active administrator. Make another person an administrator first."
NOT_STAFF = "This person has no staff role."
CAMPUS_REQUIRED = "A campus representative needs a campus. Set the person's campus first."
OWN_ACCOUNT = "You cannot change the status of your own account. Ask another officer."
STATUS_UNCHANGED = "The account is already {status}. Reload the person's page."
DELETION_PENDING = "This person wants the account deleted. Only the person can cancel the deletion."
DELETION_REASON = "You asked us to delete this account. Cancel the deletion to use all functions again."
NOTHING_TO_APPEAL = "Your account has no restriction that you can appeal against."
ALREADY_APPEALED = "You have already appealed against this decision. We will notify you of the result."
APPEAL_NOT_FOUND = "Appeal not found."
OWN_DECISION = "Another officer must rule on an appeal against your decision."
APPEAL_DECIDED = "The appeal is already {status}."

STAFF_ROLE_GRANTED_TITLE = "You joined the staff"
STAFF_ROLE_GRANTED_BODY = "Your account now has the staff role {staff_role}."
STAFF_ROLE_REVOKED_TITLE = "Your staff role ended"
STAFF_ROLE_REVOKED_BODY = "Your account no longer has the staff role {staff_role}."

ACCOUNT_RESTRICTED_TITLE = "Your account is restricted"
ACCOUNT_RESTRICTED_BODY = (
    "Reason: {reason} You can still complete the orders that are already paid. You can appeal once."
)
ACCOUNT_SUSPENDED_TITLE = "Your account is suspended"
ACCOUNT_SUSPENDED_BODY = (
    "Reason: {reason} You can still complete the orders that are already paid. You can appeal once."
)
ACCOUNT_REINSTATED_TITLE = "Your account is active again"
ACCOUNT_REINSTATED_BODY = "The restriction of your account has ended. You can use all functions again."
APPEAL_DECIDED_TITLE = "We have decided your appeal"
APPEAL_ACCEPTED_BODY = "Your appeal was accepted, and your account is active again. Our comment: {comment}"
APPEAL_REJECTED_BODY = (
    "Your appeal was rejected, and the decision about your account stays. Our comment: {comment}"
)
