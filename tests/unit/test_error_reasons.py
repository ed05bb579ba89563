"""Error reasons are public and stable: clients decide by reasons, so renamed classes keep the same reason."""

import importlib
import re
from collections import Counter
from collections.abc import Iterator

from blueprints.areas import contracts
from marketplace.kernel.errors import MarketplaceError

# Background work defines errors of its own.
importlib.import_module("tasks.all_tasks")
# The web server refuses some requests before the application.
importlib.import_module("blueprints.http.server.workers")

# Renaming a class is safe. Changing a reason needs a change of the API's clients.
REASONS = {
    "AccountErasedError": "account-erased",
    "AccountNotActiveError": "account-not-active",
    "AlertAlreadyResolvedError": "alert-already-resolved",
    "AlreadyAppealedError": "already-appealed",
    "AlreadyAppliedError": "already-applied",
    "ApplicantNotVerifiedError": "applicant-not-verified",
    "AlreadyReviewedMessageError": "blocked-message-reviewed",
    "ContactDetailsError": "contact-details",
    "ConversationBlockedError": "conversation-blocked",
    "NoShippedOrderError": "no-shipped-order",
    "OwnStoreConversationError": "own-store-conversation",
    "PhoneNotVerifiedError": "phone-not-verified",
    "StoreUnavailableError": "store-unavailable",
    "CannotApplyError": "cannot-apply",
    "SlugUnavailableError": "slug-unavailable",
    "AppealDecidedError": "appeal-decided",
    "NothingToAppealError": "nothing-to-appeal",
    "StatusUnchangedError": "account-status-unchanged",
    "AlreadyReportedError": "already-reported",
    "CaseDecidedError": "reports-decided",
    "OwnContentError": "own-content",
    "AlreadyFeaturedError": "already-featured",
    "AlreadyPostedError": "already-posted",
    "AlreadyReleasedError": "escrow-already-released",
    "AlreadyRepliedError": "review-already-replied",
    "AlreadyReviewedError": "order-already-reviewed",
    "BatchChangedError": "batch-changed",
    "CampusSlugTakenError": "campus-slug-taken",
    "ChangedSinceApprovalError": "batch-changed-since-approval",
    "ChangedWhilePolledError": "changed-while-polled",
    "ChargeAlreadyResolvedError": "charge-already-resolved",
    "ChargedBackError": "charged-back",
    "ConcurrentChangeError": "concurrent-change",
    "ConflictOfInterestError": "conflict-of-interest",
    "DeletionBlockedError": "deletion-blocked",
    "DeletionPendingError": "deletion-pending",
    "DeletionRequestedError": "deletion-already-requested",
    "NoDeletionPendingError": "no-deletion-pending",
    "RecentSignInRequiredError": "recent-sign-in-required",
    "AccountAlreadyErasedError": "account-already-erased",
    "ErasureBlockedError": "erasure-blocked",
    "PlanChangedError": "erasure-plan-changed",
    "DeliveryInProgressError": "delivery-in-progress",
    "DifferenceAlreadyResolvedError": "difference-already-resolved",
    "DuplicateApprovalError": "duplicate-approval",
    "EmailDomainBarredError": "email-domain-barred",
    "EmailDomainTakenError": "email-domain-taken",
    "EmptyBatchError": "batch-empty",
    "EmptyCartError": "cart-empty",
    "EscrowDeficitError": "escrow-balance-deficit",
    "EscrowLockedError": "funds-in-escrow",
    "EscrowNotReleasedError": "escrow-not-released",
    "EventInProgressError": "event-in-progress",
    "FeatureUnavailableError": "feature-unavailable",
    "ForeignStoreError": "foreign-store",
    "GatewayStatusUnknownError": "gateway-status-unknown",
    "HolidayExistsError": "holiday-exists",
    "HubNameTakenError": "hub-name-taken",
    "IdempotencyKeyReusedError": "idempotency-key-reused",
    "IllegalTransitionError": "transition-not-allowed",
    "ImageUploadExpiredError": "image-upload-expired",
    "InitializationInProgressError": "initialization-in-progress",
    "InsufficientBalanceError": "insufficient-balance",
    "InsufficientFundsError": "insufficient-funds",
    "InsufficientOwnFundsError": "insufficient-own-funds",
    "InsufficientStockError": "insufficient-stock",
    "InvalidCartError": "cart-invalid",
    "ItemsNotRefundableError": "items-not-refundable",
    "LimitReachedError": "limit-reached",
    "ListingTakenDownError": "listing-taken-down",
    "NoReplyError": "review-without-reply",
    "NotPayableError": "order-not-payable",
    "NothingToStageError": "nothing-to-stage",
    "OrderNotDeliveredError": "order-not-delivered",
    "OrderRefundedInFullError": "order-refunded-in-full",
    "OtherCampusError": "other-campus",
    "OverlappingSaleError": "overlapping-sale",
    "OwnListingError": "own-listing",
    "OwnStoreOrderError": "own-store-order",
    "PayeesOnHoldError": "payees-on-hold",
    "PayoutAlreadyFinalError": "payout-already-final",
    "PayoutBelowMinimumError": "payout-below-minimum",
    "PayoutExceptionAlreadyResolvedError": "payout-exception-already-resolved",
    "PayoutMayBeInFlightError": "payout-may-be-in-flight",
    "PayoutNotCancellableError": "payout-not-cancellable",
    "PayoutNotSentError": "payout-not-sent",
    "LastAdminError": "last-admin",
    "NotStaffError": "not-staff",
    "PayoutsHaltedError": "payouts-halted",
    "PayoutsNotHaltedError": "payouts-not-halted",
    "PayoutsOnHoldError": "payouts-on-hold",
    "PendingPayoutExistsError": "pending-payout-exists",
    "PermissionRequiredError": "permission-required",
    "PinLockedError": "pin-locked",
    "PriceChangedError": "price-changed",
    "ProductUnavailableError": "product-unavailable",
    "PromotionEndedError": "promotion-ended",
    "PromotionStartedError": "promotion-started",
    "ProposalExpiredError": "proposal-expired",
    "QuantityBelowReservedError": "quantity-below-reserved",
    "QuantityBelowSoldError": "quantity-below-sold",
    "QuarantineActionNotAllowedError": "quarantine-action-not-allowed",
    "ReconciliationLeasedError": "reconciliation-leased",
    "ReconciliationRunningError": "reconciliation-running",
    "ReconciliationStuckError": "reconciliation-stuck",
    "RefundInProgressError": "refund-in-progress",
    "RefundStillInFlightError": "refund-still-in-flight",
    "ReplyEditsClosedError": "reply-edits-closed",
    "RequestInProgressError": "request-in-progress",
    "RequestTakenOverError": "request-taken-over",
    "ResolutionNotAllowedError": "resolution-not-allowed",
    "ReviewEditsClosedError": "review-edits-closed",
    "RoleRequiredError": "role-required",
    "SecondApproverRequiredError": "second-approver-required",
    "SeveralEventsError": "several-events-match",
    "SeveralVendorsError": "several-vendors",
    "ShiftsOverlapError": "shifts-overlap",
    "SlugTakenError": "slug-taken",
    "StaleProposalError": "stale-proposal",
    "StaleRevisionError": "stale-revision",
    "StoreClosedError": "store-closed",
    "StoreNotActiveError": "store-not-active",
    "StoreRequiredError": "store-required",
    "SupersededRunError": "reconciliation-superseded",
    "TermAlreadyBannedError": "term-already-banned",
    "AlreadyDisputedError": "already-disputed",
    "AnswerInProgressError": "answer-in-progress",
    "AssistantBudgetError": "assistant-budget-spent",
    "AssistantOptedOutError": "assistant-opted-out",
    "ExportInProgressError": "export-in-progress",
    "ExportNotAvailableError": "export-not-available",
    "OwnerOptedOutError": "owner-opted-out",
    "PicturesNotReadError": "pictures-not-read",
    "IncidentResolvedError": "incident-resolved",
    "ThreadReviewedError": "thread-reviewed",
    "AssistantNotConfiguredError": "assistant-not-configured",
    "ModelBusyError": "model-busy",
    "EvidenceSealedError": "evidence-sealed",
    "RulingAlreadyAppealedError": "ruling-already-appealed",
    "NotAppealableError": "not-appealable",
    "NoPendingAppealError": "no-pending-appeal",
    "NoOpenReturnError": "no-open-return",
    "NotYourTurnError": "not-your-turn",
    "OfferNotOpenError": "offer-not-open",
    "RulingDiffersError": "ruling-differs",
    "TitleTakenError": "title-taken",
    "TicketClosedError": "ticket-closed",
    "TicketNotResolvedError": "ticket-not-resolved",
    "TooManyStreamsError": "too-many-streams",
    "TooManyUnpaidOrdersError": "too-many-unpaid-orders",
    "UnknownBankAccountError": "unknown-bank-account",
    "VerifiedStoreRequiredError": "verified-store-required",
    "PhoneAlreadyVerifiedError": "phone-already-verified",
    "NoValidCodeError": "no-valid-code",
    "WrongCodeError": "wrong-code",
    "WrongPinError": "wrong-pin",
}

# The code alone is specific enough: malformed requests, missing resources, tokens, and failures of the service.
WITHOUT_REASON = {
    "RefusedRequestError",
    "ConflictError",
    "ForbiddenError",
    "FunctionsKeyMissingError",
    "GatewayKeyRefusedError",
    "InternalError",
    "MalformedBodyError",
    "MethodNotAllowedError",
    "NotFoundError",
    "PayloadTooLargeError",
    "ProviderUnavailableError",
    "RateLimitError",
    "ServiceUnavailableError",
    "SigningSecretMissingError",
    "StepUpRequiredError",
    "TokenExpiredError",
    "UnauthorizedError",
    "UnknownCursorError",
    "UnsupportedMediaTypeError",
    "ValidationError",
}

# Conditions that so far occur only in background work.
BACKGROUND_ONLY_REASONS = {
    "changed-while-polled",
    "delivery-in-progress",
    "reconciliation-leased",
    "refund-in-progress",
}


def error_classes(base: type[MarketplaceError] = MarketplaceError) -> Iterator[type[MarketplaceError]]:
    """List the project's errors, without those that other tests define."""
    for error in base.__subclasses__():
        if error.__module__.startswith(("marketplace.", "blueprints.")):
            yield error
        yield from error_classes(error)


def test_reasons_of_errors_are_unchanged() -> None:
    reasons = {error.__name__: error.reason for error in error_classes() if error.reason}

    assert reasons == REASONS


def test_each_reason_is_declared_by_a_route() -> None:
    declared = {error.reason for contract in contracts() for error in contract.errors if error.reason}

    assert declared == set(REASONS.values()) - BACKGROUND_ONLY_REASONS


def test_each_reason_stands_for_a_single_condition() -> None:
    assert [reason for reason, count in Counter(REASONS.values()).items() if count > 1] == []


def test_reasons_are_in_kebab_case() -> None:
    assert [reason for reason in REASONS.values() if not re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", reason)] == []


def test_each_error_has_a_reason_or_is_listed_as_exempt() -> None:
    assert {error.__name__ for error in error_classes() if not error.reason} == WITHOUT_REASON


def test_reasons_are_declared_on_the_class_itself() -> None:
    assert [error.__name__ for error in error_classes() if error.reason and "reason" not in vars(error)] == []
