"""Names of the enumerations in the OpenAPI document. The words come from the domain's own constants.

A field with a fixed set of words refers to the enumeration with the same words.
"""

from collections.abc import Iterable, Mapping

from marketplace.alerts import kinds as alert_kinds, queries as alert_queries
from marketplace.analytics import report
from marketplace.applications import slugs, states as application_states
from marketplace.assistant import threads as assistant_threads
from marketplace.cart import queries as cart
from marketplace.catalog import states as catalog_states
from marketplace.catalog.browse import listing, vendor_inventory
from marketplace.catalog.moderation import banned_word_matcher, queries as moderation_queries, rules
from marketplace.catalog.promotions import banners, flash_sale_listing, listing as promotion_listing
from marketplace.catalog.search import suggestions
from marketplace.catalog.statistics import counters
from marketplace.chat import blocked_messages, phone_exchange, queries as chat_queries
from marketplace.disputes import (
    appeals as dispute_appeals,
    cases,
    offers,
    queries as dispute_queries,
    rulings,
    states as dispute_states,
)
from marketplace.disputes.evidence import files as evidence_files
from marketplace.health import budgets, incidents, queries as health
from marketplace.health.objectives import OBJECTIVES
from marketplace.identity import permissions, preferences
from marketplace.identity.queries import ACCOUNT_STATUSES, ROLES
from marketplace.kernel.contact_detection import KIND_NAMES
from marketplace.kernel.errors import CATALOG
from marketplace.kernel.opening_hours import DAYS
from marketplace.ledger.accounts import TRANSACTION_KINDS
from marketplace.media import images
from marketplace.notifications import devices, kinds, phrases
from marketplace.orders import admin_table, states as order_states, transitions
from marketplace.payments import admin_queries as payment_queries, states as payment_states
from marketplace.payments.money_trail import build as money_trail
from marketplace.payouts import states as payout_states
from marketplace.payouts.batches import detail as batch_detail, queries as batch_queries, staging
from marketplace.payouts.payees import holds, payout_history
from marketplace.people import account_status, appeals, own_status
from marketplace.privacy import (
    blockers as privacy_blockers,
    deletion as privacy_deletion,
    erasure as privacy_erasure,
    exports as privacy_exports,
    requests as privacy_requests,
)
from marketplace.privacy.rules import OnErasure
from marketplace.proposals import states as proposal_states
from marketplace.proposals.kinds import CHANGES
from marketplace.reconciliation import classification, queries as reconciliation_queries, resolution, run
from marketplace.referrals import states as referral_states
from marketplace.reports import decide as report_decide, submit as report_submit, targets
from marketplace.reviews import queries as review_queries, states as review_states
from marketplace.support import (
    answers,
    attachments,
    queries as ticket_queries,
    severity,
    states as ticket_states,
)
from marketplace.webhooks import queries as webhook_queries, replay

_WORDS: dict[str, Iterable[str]] = {
    # Errors and people
    "ProblemCode": CATALOG,
    "Role": ROLES,
    "AccountStatus": ACCOUNT_STATUSES,
    "BarredStatus": (account_status.RESTRICTED, account_status.SUSPENDED),
    "DecisionEnding": account_status.ENDINGS,
    "AllowedFunction": own_status.ALLOWED,
    "AppealStatus": appeals.STATUSES,
    "AppealOutcome": (appeals.ACCEPTED, appeals.REJECTED),
    "DeviceKind": devices.KINDS,
    "MessageKind": preferences.KINDS,
    "RequestableNotificationKind": kinds.REQUESTABLE,
    "Language": phrases.LANGUAGES,
    "Permission": permissions.ALL,
    "Weekday": DAYS,
    # Catalog
    "ProductStatus": sorted(catalog_states.PRODUCT.states),
    "ListingStatus": vendor_inventory.STATUSES,
    "NewListingStatus": ("published", "draft"),
    "ChangedListingStatus": ("published", "paused", "draft"),
    "ProductCondition": rules.CONDITIONS,
    "ProductSort": listing.SORTS,
    "ProductEventType": counters.EVENT_TYPES,
    "ReportInterval": report.INTERVALS,
    "ApplicationStatus": sorted(application_states.APPLICATION.states),
    "SlugFault": slugs.SLUG_FAULTS,
    "ReportTargetType": targets.TARGET_TYPES,
    "ReportReason": report_submit.REASONS,
    "ReportCaseStatus": report_decide.STATUSES,
    "ReportOutcome": (report_decide.UPHELD, report_decide.DISMISSED),
    "TicketStatus": sorted(ticket_states.TICKET.states),
    "TicketStatusFilter": ticket_queries.STATUS_FILTERS,
    "TicketCategory": severity.CATEGORIES,
    "TicketSeverity": severity.SEVERITIES,
    "TicketAuthor": ("user", "staff", "system"),
    "DisputeStatus": sorted(dispute_states.DISPUTE.states),
    "DisputeStatusFilter": dispute_queries.STATUS_FILTERS,
    "DisputeReason": cases.REASONS,
    "DesiredOutcome": cases.DESIRED_OUTCOMES,
    "DisputeSide": ("buyer", "vendor", "system"),
    "OfferStatus": offers.OFFER_STATUSES,
    "RulingOutcome": dispute_states.OUTCOMES,
    "RulingState": rulings.RULING_STATES,
    "ReturnStatus": dispute_states.RETURN_STATUSES,
    "ThreadRole": ("user", "assistant"),
    "ExportStatus": privacy_exports.STATUSES,
    "DeletionStatus": privacy_deletion.STATUSES,
    "ErasureBlockerKind": privacy_blockers.BLOCKERS,
    "ErasureAction": tuple(str(action) for action in OnErasure),
    "ErasureStatus": privacy_erasure.STATUSES,
    "PrivacyRequestKind": privacy_requests.KINDS,
    "FlagReason": assistant_threads.FLAG_REASONS,
    "AssistantPurpose": ("conversation", "session_title", "support_reply", "thread_summary"),
    "SourceKind": ("ticket", "order", "policy"),
    "EvidenceKind": evidence_files.KINDS,
    "EvidenceType": evidence_files.CONTENT_TYPES,
    "RulingAppealStatus": dispute_appeals.APPEAL_STATUSES,
    "AppealDecision": dispute_appeals.DECISIONS,
    "AppealDecisionState": (rulings.EXECUTED, rulings.AWAITING_SECOND_OFFICER),
    "MailOutcome": ("accepted", "duplicate", "ignored"),
    "AnswerStatus": answers.STATUSES,
    "AttachmentType": attachments.CONTENT_TYPES,
    "MessageDirection": chat_queries.DIRECTIONS,
    "PhoneExchangeStatus": phone_exchange.STATUSES,
    "ContactKind": KIND_NAMES,
    "BlockedMessageVerdict": blocked_messages.VERDICTS,
    "ReviewSort": review_queries.SORTS,
    "ReviewStatus": (review_states.VISIBLE, review_states.HIDDEN),
    "ReviewState": ("screening", "held"),
    "ModerationState": moderation_queries.QUEUE_STATES,
    "BannedGoodsCategory": banned_word_matcher.BANNED_CATEGORIES,
    "SuggestionKind": suggestions.KINDS,
    "SearchSort": ("relevance",),
    "BannerPlacement": banners.PLACEMENTS,
    "PromotionState": promotion_listing.PROMOTION_STATES,
    "PublicFlashSaleState": flash_sale_listing.PUBLIC_STATES,
    "FlashSaleState": flash_sale_listing.FLASH_SALE_STATES,
    "CartProblem": cart.PROBLEMS,
    # Orders
    "OrderStatus": sorted(order_states.ORDER.states),
    "FulfilmentStatus": (order_states.SHIPPED,),
    "EscrowStatus": sorted(order_states.ESCROW.states),
    "DeliveryStatus": sorted(order_states.DELIVERY_STATUSES),
    "DeliveryMethod": ("delivery", "pickup"),
    "NextAction": order_states.ACTIONS,
    "OrderEventTrigger": order_states.TRIGGERS,
    "OrderActor": transitions.ACTOR_ROLES,
    "StuckReason": admin_table.STUCK_REASONS,
    "MoneyHolder": money_trail.HOLDERS,
    # Payments and the ledger
    "PaymentIntentStatus": sorted(payment_states.INTENT.states),
    "PaymentStatus": payment_states.PAYMENT_STATUSES,
    "PaymentChannel": payment_states.CHANNELS,
    "RefundStatus": sorted(payment_states.REFUND.states),
    "RefundStatusFilter": (
        payment_queries.OPEN_FILTER,
        payment_queries.PAID_TWICE_FILTER,
        *sorted(payment_states.REFUND.states),
    ),
    "RefundDestination": ("gateway", "wallet"),
    "RefundCause": payment_queries.CAUSE_PREFIXES,
    "RefundDispute": ("open", "lost"),
    "QuarantineReason": ("amount_below_total", "currency", "fees_above_amount"),
    "QuarantineResolution": ("accept_rest", "refund", "wallet"),
    "LedgerTransactionKind": TRANSACTION_KINDS,
    "LedgerDirection": ("debit", "credit"),
    # Payouts and reconciliation
    "PayoutStatus": sorted(payout_states.PAYOUT.states),
    "InTransitPayoutStatus": (payout_states.PENDING, payout_states.SUBMITTED, payout_states.UNKNOWN),
    "PayoutSource": payout_history.SOURCES,
    "PayoutHoldReason": holds.ALL_HOLD_REASONS,
    "PayeeHoldReason": holds.HOLD_REASONS,
    "PayoutHaltState": ("halted", "resumed"),
    "TransferOutcome": ("failed", "reversed", "unexpected"),
    "BatchStatus": sorted(payout_states.BATCH.states),
    "BatchFilter": batch_queries.FILTERS,
    "BatchPaymentSource": ("vendor", "wallet"),
    "BatchChangeKind": ("called_off", "account_changed"),
    "BatchRisk": batch_detail.RISK_FLAGS,
    "BatchRiskFilter": (batch_detail.ANY_RISK, *batch_detail.RISK_FLAGS),
    "SkipReason": staging.SKIP_REASONS,
    "StatementAccount": ("vendor_payable", "vendor_receivable"),
    "StoreStatus": ("active", "suspended", "closed"),
    "ReconciliationStatus": run.STATUSES,
    "ReconciliationStarter": (run.OFFICER, run.SCHEDULE, run.OPERATOR),
    "DifferenceKind": reconciliation_queries.EXCEPTION_KINDS,
    "DifferenceProblem": classification.PROBLEMS,
    "DifferenceAction": classification.ACTIONS,
    "DifferenceResolution": resolution.RESOLUTIONS,
    "DifferenceState": resolution.STATES,
    # Operations
    "CaseStatus": ("open", "resolved"),
    "AlertIdentifier": alert_kinds.ALERT_KINDS,
    "AlertSeverity": alert_kinds.SEVERITIES,
    "AlertStateFilter": (*alert_queries.STATES, alert_queries.ALL),
    "AlertResolution": ("officer", "operator", "rule"),
    "AlertEvent": ("raised", "resolved"),
    "WebhookProvider": webhook_queries.PROVIDERS,
    "WebhookState": webhook_queries.STATES,
    "ReplayOutcome": replay.OUTCOMES,
    "ChangedOrderField": ("status", "payment", "escrow"),
    "TaskOutcome": ("succeeded", "failed", "interrupted"),
    "UserImagePurpose": images.USER_PURPOSES,
    "StaffRole": permissions.STAFF_ROLES,
    "PersonOrderRole": ("buyer", "vendor"),
    "ProposalKind": CHANGES,
    "ReferralStatus": sorted(referral_states.REFERRAL.states),
    "ReferralRejection": referral_states.REJECTIONS,
    "ProposalStatus": sorted(proposal_states.PROPOSAL.states),
    "ProposalAction": (proposal_states.APPROVE, proposal_states.REJECT),
    "PlatformComponent": health.COMPONENTS,
    "ComponentStatus": health.COMPONENT_STATUSES,
    "IncidentImpact": incidents.IMPACTS,
    "IncidentStatus": incidents.NOTE_STATUSES,
    "ObjectiveName": OBJECTIVES,
    "BudgetState": budgets.BUDGET_STATES,
    "ProbeStatus": ("ok", "operational", "degraded", "unavailable", "down"),
    "DependencyStatus": ("up", "degraded", "unavailable", "down"),
    "DiagnosticStatus": ("ok", "degraded"),
    "ReadinessStatus": ("ready", "not_ready"),
    "DependencyReadinessStatus": ("healthy", "unhealthy"),
    "PlatformStatusWord": (*health.COMPONENT_STATUSES, health.MAINTENANCE),
    # Listings
    "SortOrder": ("asc", "desc"),
    "ExportFormat": ("json", "csv"),
    "StatementFormat": ("json", "csv", "pdf"),
}
ENUMERATIONS: Mapping[str, tuple[str, ...]] = {name: tuple(words) for name, words in _WORDS.items()}
