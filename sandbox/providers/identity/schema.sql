CREATE TABLE signing_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key_id TEXT NOT NULL UNIQUE,
    private_key TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE codes (
    code_hash TEXT PRIMARY KEY,
    persona TEXT NOT NULL,
    assurance_level TEXT NOT NULL CHECK (assurance_level IN ('aal1', 'aal2')),
    client_id TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    challenge TEXT NOT NULL,
    nonce TEXT,
    authenticated_at REAL NOT NULL,
    expires_at REAL NOT NULL
) WITHOUT ROWID;
