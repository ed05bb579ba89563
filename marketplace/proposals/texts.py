"""Texts about proposals, for officers. Placeholders are filled with ``str.format``."""

PROPOSAL_FILED_TITLE = "A platform change needs your approval"
PROPOSAL_FILED_BODY = (
    "Another officer filed a {kind} proposal. Review the proposal, then approve or reject it."
    " Reason: {reason}"
)
PROPOSAL_APPROVED_TITLE = "Proposal approved"
PROPOSAL_APPROVED_BODY = (
    "The {kind} proposal for {target} is approved. The change takes effect at {effective_at}."
)
PROPOSAL_ACTIVE_TITLE = "Proposal in force"
PROPOSAL_ACTIVE_BODY = "The {kind} proposal for {target} is approved, and the change is in force."
PROPOSAL_REJECTED_TITLE = "Proposal rejected"
PROPOSAL_REJECTED_BODY = "The {kind} proposal for {target} is rejected. Nothing was changed. Reason: {reason}"
PROPOSAL_EXPIRED_TITLE = "Proposal expired"
PROPOSAL_EXPIRED_BODY = (
    "The {kind} proposal for {target} was not approved in time."
    " File a new proposal if the change is still needed."
)

# Notifications to the owner of an adjusted wallet.
WALLET_CREDITED_TITLE = "Your wallet was credited"
WALLET_CREDITED_BODY = "We added {amount} to your wallet. Reason: {reason}"
WALLET_DEBITED_TITLE = "Your wallet was debited"
WALLET_DEBITED_BODY = (
    "We took {amount} from your wallet. Reason: {reason} Contact support if you think that this is wrong."
)

OWN_WALLET = "The proposal concerns your own wallet, so other officers must file and approve it."
PROPOSAL_NOT_FOUND = "Proposal not found."
PROPOSAL_EXPIRED = "The proposal expired at {expires_at} without an approval. File a new proposal."
PROPOSAL_STALE = "The target has changed since the proposal was filed. File a new proposal."
# The reason of a rejection by the schedule.
PROPOSAL_STALE_REASON = "The target has changed since the proposal was filed."

# The effect of a feature flag that the service does not know.
UNUSED_FLAG_EFFECT = "The service does not use this flag. Client applications can read it."
