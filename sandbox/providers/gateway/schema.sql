CREATE TABLE customers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    email TEXT NOT NULL UNIQUE,
    customer_code TEXT NOT NULL UNIQUE,
    first_name TEXT,
    last_name TEXT,
    phone TEXT,
    metadata TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE TABLE transactions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    reference TEXT NOT NULL UNIQUE,
    access_code TEXT NOT NULL UNIQUE,
    customer_id INTEGER NOT NULL REFERENCES customers (id),
    status TEXT NOT NULL CHECK (status IN ('abandoned', 'pending', 'failed', 'success', 'reversed')),
    requested_amount INTEGER NOT NULL CHECK (requested_amount > 0),
    amount INTEGER NOT NULL CHECK (amount > 0),
    fees INTEGER CHECK (fees >= 0),
    refunded INTEGER NOT NULL DEFAULT 0 CHECK (refunded >= 0 AND refunded <= amount),
    currency TEXT NOT NULL,
    channel TEXT NOT NULL,
    channels TEXT,
    callback_url TEXT,
    metadata TEXT,
    gateway_response TEXT NOT NULL,
    account_number TEXT,
    account_expires_at TEXT,
    created_at TEXT NOT NULL,
    paid_at TEXT
);
CREATE INDEX transactions_by_time ON transactions (created_at);

CREATE TABLE dedicated_accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    customer_id INTEGER NOT NULL UNIQUE REFERENCES customers (id),
    account_number TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL
);

CREATE TABLE recipients (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    recipient_code TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    email TEXT,
    description TEXT,
    metadata TEXT,
    currency TEXT NOT NULL,
    account_number TEXT NOT NULL,
    account_name TEXT NOT NULL,
    bank_code TEXT NOT NULL,
    bank_name TEXT NOT NULL,
    created_at TEXT NOT NULL,
    UNIQUE (account_number, bank_code)
);

CREATE TABLE transfers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    reference TEXT NOT NULL UNIQUE,
    transfer_code TEXT NOT NULL UNIQUE,
    recipient_id INTEGER NOT NULL REFERENCES recipients (id),
    amount INTEGER NOT NULL CHECK (amount > 0),
    currency TEXT NOT NULL,
    reason TEXT,
    status TEXT NOT NULL CHECK (status IN ('pending', 'success', 'failed', 'reversed')),
    outcome TEXT NOT NULL CHECK (outcome IN ('success', 'failed', 'reversed')),
    due_at REAL NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    transferred_at TEXT
);
CREATE INDEX transfers_by_time ON transfers (created_at);
CREATE INDEX transfers_due ON transfers (due_at) WHERE status = 'pending';

CREATE TABLE refunds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    transaction_id INTEGER NOT NULL REFERENCES transactions (id),
    refund_reference TEXT NOT NULL UNIQUE,
    amount INTEGER NOT NULL CHECK (amount > 0),
    currency TEXT NOT NULL,
    customer_note TEXT NOT NULL,
    merchant_note TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'processed', 'failed', 'needs-attention')),
    outcome TEXT NOT NULL CHECK (outcome IN ('success', 'failed', 'reversed', 'needs-attention')),
    due_at REAL NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    refunded_at TEXT,
    reversed_at TEXT
);
CREATE INDEX refunds_by_time ON refunds (created_at);
CREATE INDEX refunds_due ON refunds (due_at) WHERE status = 'pending';

-- The last row of a currency holds its current balance. Each row names the object that moved the balance.
CREATE TABLE balance_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    currency TEXT NOT NULL,
    difference INTEGER NOT NULL,
    balance INTEGER NOT NULL,
    reason TEXT NOT NULL,
    model_responsible TEXT NOT NULL,
    model_row INTEGER NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX balance_entries_by_currency ON balance_entries (currency, id);

CREATE TABLE settlements (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    currency TEXT NOT NULL,
    amount INTEGER NOT NULL CHECK (amount > 0),
    created_at TEXT NOT NULL
);

CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event TEXT NOT NULL,
    reference TEXT NOT NULL,
    body TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('waiting', 'delivered', 'given_up')),
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at REAL NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE status = 'waiting';
CREATE INDEX deliveries_by_reference ON deliveries (reference);

CREATE TABLE delivery_attempts (
    delivery_id INTEGER NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    sent_at TEXT NOT NULL,
    answer INTEGER,
    error TEXT,
    duration_milliseconds INTEGER NOT NULL,
    PRIMARY KEY (delivery_id, attempt)
) WITHOUT ROWID;

CREATE TABLE calls (
    reference TEXT NOT NULL,
    operation TEXT NOT NULL,
    count INTEGER NOT NULL,
    last_at TEXT NOT NULL,
    PRIMARY KEY (reference, operation)
) WITHOUT ROWID;

CREATE TABLE next_outcomes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    operation TEXT NOT NULL CHECK (operation IN ('transfer', 'refund')),
    outcome TEXT NOT NULL,
    remaining INTEGER NOT NULL CHECK (remaining > 0),
    delay_seconds REAL
);

-- Ids exceed 32 bits, like the real gateway's. A client that stores ids in fewer bits fails in the sandbox.
INSERT INTO sqlite_sequence (name, seq) VALUES
    ('transactions', 4100000000), ('transfers', 860000000), ('refunds', 3000000), ('customers', 180000000),
    ('recipients', 20000000), ('balance_entries', 149000000), ('settlements', 3090000);
