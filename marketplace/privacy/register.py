"""The register of personal data: each table, each prefix of objects, and each prefix of cache keys.

Columns are collected from the models' ``personal`` marks. A test fails when a table or a prefix is missing.
"""

from collections.abc import Mapping

from marketplace.privacy.rules import (
    AUDIT_RECORDS,
    CONDUCT_RECORDS,
    DISPUTE_RECORDS,
    FINANCIAL_RECORDS,
    Basis,
    OnErasure,
    PersonalKeys,
    PersonalTable,
    Retention,
)

_CONTRACT, _LAW = Basis.CONTRACT, Basis.LEGAL_OBLIGATION
_INTEREST, _CONSENT = Basis.LEGITIMATE_INTEREST, Basis.CONSENT
_ERASE, _ANONYMISE, _RETAIN = OnErasure.ERASE, OnErasure.ANONYMISE, OnErasure.RETAIN

_OWN = "t.user_id = :user_id"
_OWN_STORES = "SELECT v.id FROM vendor_profiles v WHERE v.user_id = :user_id"
# A store never sees an order that was not paid.
_IS_OWN_ORDER = f"(buyer_id = :user_id OR paid_at IS NOT NULL AND vendor_id IN ({_OWN_STORES}))"
_OWN_ORDERS = f"SELECT id FROM orders WHERE {_IS_OWN_ORDER}"
_OWN_DISPUTES = "SELECT d.id FROM disputes d WHERE d.buyer_id = :user_id OR d.vendor_user_id = :user_id"
_OWN_CONVERSATIONS = "SELECT c.id FROM conversations c WHERE c.buyer_id = :user_id OR c.seller_id = :user_id"
_OWN_INTENTS = "SELECT i.id FROM payment_intents i WHERE i.buyer_id = :user_id"
_OWN_PAYOUTS = "SELECT p.id FROM payout_transfer_intents p WHERE p.user_id = :user_id"
_OWN_CONTACTS = "SELECT c.id FROM support_contacts c WHERE c.profile_id = :user_id"
_OWN_TICKETS = (
    f"SELECT s.id FROM support_tickets s WHERE s.creator_id = :user_id OR s.contact_id IN ({_OWN_CONTACTS})"
)
_OWN_REVIEWS = f"SELECT r.id FROM reviews r WHERE r.author_id = :user_id OR r.vendor_id IN ({_OWN_STORES})"
_OWN_THREADS = "SELECT a.id FROM assistant_threads a WHERE a.user_id = :user_id"
_OWN_PRODUCTS = f"SELECT p.id FROM products p WHERE p.vendor_id IN ({_OWN_STORES})"
_OWN_ACCOUNTS = (
    f"SELECT l.id FROM ledger_accounts l WHERE l.owner_id = :user_id OR l.owner_id IN ({_OWN_STORES})"
)
_MONTH, _YEAR = 30, 365


PERSONAL_TABLES: Mapping[str, PersonalTable] = {
    # Profile
    "profiles": PersonalTable("profile", "t.id = :user_id", "Identify the person.", _CONTRACT, _ANONYMISE),
    "addresses": PersonalTable("profile", _OWN, "Deliver orders.", _CONTRACT, _ERASE),
    "phone_codes": PersonalTable("profile", _OWN, "Verify a phone number.", _CONTRACT, _ERASE, Retention(2)),
    "former_contacts": PersonalTable(
        "profile",
        _OWN,
        "Warn earlier contacts of a change.",
        _INTEREST,
        _ERASE,
        Retention(_MONTH, since="replaced_at"),
    ),
    "images": PersonalTable("profile", "t.owner_id = :user_id", "Show pictures.", _CONTRACT, _ERASE),
    "private_documents": PersonalTable(
        "profile", "t.owner_id = :user_id", "Check students, disputes and tickets.", _CONTRACT, _ERASE
    ),
    "user_devices": PersonalTable("profile", _OWN, "Send push messages.", _CONSENT, _ERASE),
    "favorites": PersonalTable("profile", _OWN, "Remember products.", _CONTRACT, _ERASE),
    "cart_items": PersonalTable("profile", _OWN, "Remember the cart.", _CONTRACT, _ERASE),
    "referrals": PersonalTable(
        "profile",
        "t.newcomer_id = :user_id OR t.referrer_id = :user_id",
        "Reward referrals.",
        _CONTRACT,
        _RETAIN,
        FINANCIAL_RECORDS,
    ),
    "erased_identities": PersonalTable(
        "profile",
        "false",
        "Keep erased people from coming back by an old token.",
        _INTEREST,
        _RETAIN,
        CONDUCT_RECORDS,
    ),
    "privacy_exports": PersonalTable(
        "profile", _OWN, "Export data.", _LAW, _ERASE, Retention(_YEAR, since="requested_at")
    ),
    "deletion_requests": PersonalTable(
        "profile", _OWN, "Delete accounts.", _LAW, _RETAIN, Retention(3 * _YEAR, "Proof of the deletion.")
    ),
    "erasure_plans": PersonalTable(
        "profile", _OWN, "Erase data.", _LAW, _RETAIN, Retention(7 * _YEAR, "Proof of the erasure.")
    ),
    "erasure_executions": PersonalTable(
        "profile", _OWN, "Erase data.", _LAW, _RETAIN, Retention(7 * _YEAR, "Proof of the erasure.")
    ),
    # Conduct
    "account_decisions": PersonalTable(
        "conduct", _OWN, "Restrict and suspend accounts.", _INTEREST, _RETAIN, CONDUCT_RECORDS
    ),
    "account_appeals": PersonalTable(
        "conduct",
        "t.decision_id IN (SELECT d.id FROM account_decisions d WHERE d.user_id = :user_id)",
        "Decide appeals.",
        _INTEREST,
        _RETAIN,
        CONDUCT_RECORDS,
    ),
    "content_reports": PersonalTable(
        "conduct", "t.reporter_id = :user_id", "Check reported content.", _INTEREST, _ANONYMISE
    ),
    "report_cases": PersonalTable(
        "conduct", "t.owner_id = :user_id", "Check reported content.", _INTEREST, _RETAIN, CONDUCT_RECORDS
    ),
    # Orders
    "orders": PersonalTable(
        "orders", f"t.id IN ({_OWN_ORDERS})", "Sell and deliver.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    "order_items": PersonalTable(
        "orders", f"t.order_id IN ({_OWN_ORDERS})", "Sell and deliver.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    "order_events": PersonalTable(
        "orders", f"t.order_id IN ({_OWN_ORDERS})", "Prove each step.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    "escrows": PersonalTable(
        "orders", f"t.order_id IN ({_OWN_ORDERS})", "Hold payments.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    "store_day_buyers": PersonalTable(
        "orders", "t.buyer_id = :user_id", "Count returning buyers.", _INTEREST, _ERASE
    ),
    # Payments
    "payment_intents": PersonalTable(
        "payments", "t.buyer_id = :user_id", "Take payments.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    "payment_allocations": PersonalTable(
        "payments", f"t.intent_id IN ({_OWN_INTENTS})", "Take payments.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    "transfer_accounts": PersonalTable(
        "payments",
        f"t.intent_id IN ({_OWN_INTENTS})",
        "Take bank transfers.",
        _LAW,
        _RETAIN,
        FINANCIAL_RECORDS,
    ),
    "gateway_charges": PersonalTable(
        "payments", f"t.intent_id IN ({_OWN_INTENTS})", "Take payments.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    "charge_disputes": PersonalTable(
        "payments",
        f"t.intent_id IN ({_OWN_INTENTS})",
        "Answer chargebacks.",
        _LAW,
        _RETAIN,
        FINANCIAL_RECORDS,
    ),
    "quarantined_charges": PersonalTable(
        "payments", f"t.intent_id IN ({_OWN_INTENTS})", "Review payments.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    "refunds": PersonalTable(
        "payments", "t.buyer_id = :user_id", "Return payments.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    "ledger_accounts": PersonalTable(
        "payments",
        f"t.owner_id = :user_id OR t.owner_id IN ({_OWN_STORES})",
        "Keep accounts.",
        _LAW,
        _RETAIN,
        FINANCIAL_RECORDS,
    ),
    "ledger_entries": PersonalTable(
        "payments", f"t.account_id IN ({_OWN_ACCOUNTS})", "Keep accounts.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    # Payouts
    "payout_accounts": PersonalTable("payouts", _OWN, "Pay people out.", _LAW, _ANONYMISE),
    "payout_transfer_intents": PersonalTable(
        "payouts", _OWN, "Pay people out.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    "payout_transfers": PersonalTable(
        "payouts", f"t.intent_id IN ({_OWN_PAYOUTS})", "Pay people out.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    "payout_share_holds": PersonalTable(
        "payouts", f"t.vendor_id IN ({_OWN_STORES})", "Wait for appeals.", _LAW, _RETAIN, FINANCIAL_RECORDS
    ),
    # Store
    "vendor_profiles": PersonalTable("store", _OWN, "Show the store.", _CONTRACT, _ANONYMISE),
    "vendor_applications": PersonalTable("store", _OWN, "Check new vendors.", _CONTRACT, _ANONYMISE),
    "products": PersonalTable(
        "store", f"t.vendor_id IN ({_OWN_STORES})", "Offer goods.", _CONTRACT, _ANONYMISE
    ),
    "product_images": PersonalTable(
        "store", f"t.product_id IN ({_OWN_PRODUCTS})", "Offer goods.", _CONTRACT, _ERASE
    ),
    "search_documents": PersonalTable(
        "store", f"t.vendor_id IN ({_OWN_STORES})", "Find goods.", _CONTRACT, _ERASE
    ),
    "store_days": PersonalTable(
        "store", f"t.vendor_id IN ({_OWN_STORES})", "Show figures to the vendor.", _CONTRACT, _ERASE
    ),
    "store_product_days": PersonalTable(
        "store", f"t.vendor_id IN ({_OWN_STORES})", "Show figures to the vendor.", _CONTRACT, _ERASE
    ),
    # Reviews
    "reviews": PersonalTable(
        "reviews",
        f"t.author_id = :user_id OR t.vendor_id IN ({_OWN_STORES})",
        "Help other buyers.",
        _INTEREST,
        _ANONYMISE,
    ),
    "review_products": PersonalTable(
        "reviews", f"t.review_id IN ({_OWN_REVIEWS})", "Help other buyers.", _INTEREST, _ANONYMISE
    ),
    "review_images": PersonalTable(
        "reviews", f"t.review_id IN ({_OWN_REVIEWS})", "Help other buyers.", _INTEREST, _ERASE
    ),
    # Chat
    "conversations": PersonalTable(
        "chat", "t.buyer_id = :user_id OR t.seller_id = :user_id", "Talk about orders.", _CONTRACT, _ANONYMISE
    ),
    "messages": PersonalTable(
        "chat", f"t.conversation_id IN ({_OWN_CONVERSATIONS})", "Talk about orders.", _CONTRACT, _ANONYMISE
    ),
    "message_images": PersonalTable(
        "chat",
        f"t.message_id IN (SELECT m.id FROM messages m WHERE m.conversation_id IN ({_OWN_CONVERSATIONS}))",
        "Talk about orders.",
        _CONTRACT,
        _ERASE,
    ),
    "chat_blocks": PersonalTable(
        "chat",
        "t.blocker_id = :user_id OR t.blocked_id = :user_id",
        "Stop unwanted messages.",
        _CONTRACT,
        _ERASE,
    ),
    "blocked_messages": PersonalTable(
        "chat",
        "t.sender_id = :user_id",
        "Keep payments on the platform.",
        _INTEREST,
        _ERASE,
        Retention(_YEAR),
    ),
    "phone_exchanges": PersonalTable(
        "chat",
        f"t.conversation_id IN ({_OWN_CONVERSATIONS})",
        "Allow phone numbers after an order.",
        _CONSENT,
        _ERASE,
    ),
    # Notifications
    "notifications": PersonalTable(
        "notifications", _OWN, "Tell people about their orders.", _CONTRACT, _ERASE
    ),
    "notification_delivery_logs": PersonalTable(
        "notifications", _OWN, "Deliver messages.", _CONTRACT, _ERASE, Retention(90)
    ),
    # Support
    "support_tickets": PersonalTable(
        "support",
        f"t.creator_id = :user_id OR t.contact_id IN ({_OWN_CONTACTS})",
        "Answer questions.",
        _CONTRACT,
        _ANONYMISE,
    ),
    "support_ticket_messages": PersonalTable(
        "support", f"t.ticket_id IN ({_OWN_TICKETS})", "Answer questions.", _CONTRACT, _ANONYMISE
    ),
    "support_attachments": PersonalTable(
        "support",
        f"t.message_id IN (SELECT m.id FROM support_ticket_messages m WHERE m.ticket_id IN ({_OWN_TICKETS}))",
        "Answer questions.",
        _CONTRACT,
        _ERASE,
    ),
    "support_contacts": PersonalTable(
        "support", "t.profile_id = :user_id", "Answer messages.", _CONTRACT, _ANONYMISE
    ),
    "support_contact_messages": PersonalTable(
        "support", f"t.contact_id IN ({_OWN_CONTACTS})", "Answer messages.", _CONTRACT, _ERASE
    ),
    # Disputes
    "disputes": PersonalTable(
        "disputes",
        "t.buyer_id = :user_id OR t.vendor_user_id = :user_id",
        "Decide disputes.",
        _CONTRACT,
        _RETAIN,
        DISPUTE_RECORDS,
    ),
    **{
        name: PersonalTable(
            "disputes",
            f"t.dispute_id IN ({_OWN_DISPUTES})",
            "Decide disputes.",
            _CONTRACT,
            _RETAIN,
            DISPUTE_RECORDS,
        )
        for name in (
            "dispute_appeals",
            "dispute_events",
            "dispute_evidence",
            "dispute_offers",
            "dispute_returns",
            "dispute_ruling_proposals",
        )
    },
    # Assistant
    "assistant_threads": PersonalTable("assistant", _OWN, "Answer shoppers.", _CONSENT, _ERASE),
    "assistant_messages": PersonalTable(
        "assistant", f"t.thread_id IN ({_OWN_THREADS})", "Answer shoppers.", _CONSENT, _ERASE
    ),
    "assistant_opt_outs": PersonalTable("assistant", _OWN, "Honour the opt-out.", _CONSENT, _ERASE),
    "assistant_usage": PersonalTable(
        "assistant", _OWN, "Limit the cost.", _INTEREST, _ERASE, Retention(_YEAR, since="day")
    ),
    # Audit
    "audit_logs": PersonalTable(
        "audit", "t.actor_id = :user_id", "Prove who did what.", _LAW, _RETAIN, AUDIT_RECORDS
    ),
    # Staff
    "rep_shifts": PersonalTable("staff", _OWN, "Plan the shifts of hubs.", _CONTRACT, _ERASE),
    "support_duties": PersonalTable("staff", _OWN, "Assign tickets.", _CONTRACT, _ERASE),
    "support_views": PersonalTable(
        "staff", "t.owner_id = :user_id", "Remember filters of the inbox.", _CONTRACT, _ERASE
    ),
    "staff_sign_ins": PersonalTable(
        "staff", _OWN, "Audit sign-ins once.", _INTEREST, _ERASE, Retention(_YEAR, since="signed_in_at")
    ),
    "payout_approvals": PersonalTable(
        "staff", "t.officer_id = :user_id", "Prove approvals.", _LAW, _RETAIN, AUDIT_RECORDS
    ),
}

# Tables whose rows are found by a keyed hash or by the provider's name of a person, not by the id of a profile.
UNLINKED_TABLES: Mapping[str, str] = {
    "message_opt_outs": "Keyed hashes of phones that want no messages, also after an erasure.",
    "webhook_inbox": "Events of providers, deleted after processing.",
    "processed_webhook_events": "Events of providers, kept for tax and accounting.",
    "dead_letter_webhooks": "Events that failed, until an operator replays or closes them.",
    "person_keys": "Keys of sealed values of people, deleted by an erasure.",
    "idempotency_keys": "Responses for repeated requests, deleted after a day.",
    "outbox_events": "Ids of rows, deleted after processing.",
}

# Free texts of staff about cases, without a data subject of their own.
STAFF_TEXTS: Mapping[str, str] = {
    "alerts": "Notes of operators.",
    "payout_batches": "Reasons of finance officers.",
    "payout_exceptions": "Notes of finance officers.",
    "platform_proposals": "Reasons of officers.",
    "reconciliation_exceptions": "Notes of finance officers.",
    "support_canned_replies": "Texts of the team.",
}

NOT_PERSONAL: Mapping[str, str] = {
    **dict.fromkeys(
        ("banners", "featured_products", "flash_sales", "vibes", "vibe_products"),
        "Promotions, with the officer's id.",
    ),
    **dict.fromkeys(
        ("campuses", "campus_email_domains", "hostels", "hubs", "public_holidays"),
        "Places and days of a campus.",
    ),
    **dict.fromkeys(("categories", "banned_terms", "report_clearances"), "The catalog and its rules."),
    **dict.fromkeys(
        ("search_lexemes", "search_terms", "search_synonyms", "search_misses", "category_search_misses"),
        "Words of listings and counts of searches, without people.",
    ),
    **dict.fromkeys(
        (
            *(
                "product_counts",
                "product_statistics",
                "statistics_batches",
                "analytics_progress",
                "queue_counts",
            ),
            *("signal_counts", "daily_counts", "signal_batches"),
        ),
        "Counts without people.",
    ),
    **dict.fromkeys(
        (
            "ledger_transactions",
            "gateway_movements",
            "reconciliations",
            "reconciliation_differences",
            "reconciliation_records",
        ),
        "Amounts and references of the gateway.",
    ),
    **dict.fromkeys(
        (
            "admin_roles",
            "audit_anchors",
            "audit_archives",
            "platform_settings",
            "periodic_tasks",
            "payout_halts",
            "incidents",
            "incident_notes",
            "alert_messages",
            "assistant_evaluations",
        ),
        "The configuration and state of the service.",
    ),
}

OBJECTS: tuple[PersonalKeys, ...] = (
    PersonalKeys("avatars", "Pictures of people.", _ERASE, "with the account"),
    PersonalKeys("products", "Pictures of listings.", _ERASE, "with the listing"),
    PersonalKeys("reviews", "Pictures of reviews.", _ERASE, "with the review"),
    PersonalKeys("chat", "Pictures of messages.", _ERASE, "with the account"),
    PersonalKeys("student-ids", "Documents of vendor applications.", _ERASE, "with the account"),
    PersonalKeys("support", "Attachments of tickets.", _ERASE, "with the account"),
    PersonalKeys("messages", "Files of incoming messages.", _ERASE, "with the account"),
    PersonalKeys("exports", "Archives of personal data.", _ERASE, "7 days"),
    PersonalKeys("audit-anchors", "Ids and hashes of the audit trail.", _RETAIN, "seven years"),
    PersonalKeys("audit-archive", "Months of the audit trail, with sealed values.", _RETAIN, "seven years"),
    PersonalKeys("erasures", "Receipts of erasures, with the pseudonym.", _RETAIN, "seven years"),
    PersonalKeys("evidence", "Evidence of disputes.", _RETAIN, "seven years"),
    PersonalKeys("evidence-packs", "Evidence for chargebacks.", _RETAIN, "seven years"),
)

CACHE_KEYS: tuple[PersonalKeys, ...] = (
    PersonalKeys("m2:w:", "Counts of requests by person or address.", _ERASE, "a day at most"),
    PersonalKeys("m2:c:", "Public content.", _ERASE, "an hour at most"),
    PersonalKeys("m2:t:", "Versions of public content.", _ERASE, "never; without people"),
    PersonalKeys("m2:streams:", "Open streams of a person.", _ERASE, "a minute"),
    PersonalKeys("m2:assistant:", "Open answers of a person, and events to resume.", _ERASE, "a minute"),
    PersonalKeys("m2:live", "The channel of live events, which stores nothing.", _ERASE, "at once"),
)
