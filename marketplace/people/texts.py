"""Error messages and notifications of the administration of people."""

PERSON_NOT_FOUND = "Person not found."
OWN_ROLE = "You cannot change your own role. Ask another administrator."
LAST_ADMIN = "This person is the last active administrator. Make another person an administrator first."
NOT_STAFF = "This person has no staff role."
CAMPUS_REQUIRED = "A campus representative needs a campus. Set the person's campus first."

STAFF_ROLE_GRANTED_TITLE = "You joined the staff"
STAFF_ROLE_GRANTED_BODY = "Your account now has the staff role {staff_role}."
STAFF_ROLE_REVOKED_TITLE = "Your staff role ended"
STAFF_ROLE_REVOKED_BODY = "Your account no longer has the staff role {staff_role}."
