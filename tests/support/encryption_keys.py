"""The encryption keys of the tests."""

import base64

DATA_KEY = base64.b64encode(b"data-key-of-the-tests-32-bytes--").decode()
DATA_ENCRYPTION_KEYS = f"tests:{DATA_KEY}"
BLIND_INDEX_KEY = base64.b64encode(b"index-key-of-the-tests-32-bytes-").decode()
KEY_VARIABLES = {"DATA_ENCRYPTION_KEYS": DATA_ENCRYPTION_KEYS, "BLIND_INDEX_KEY": BLIND_INDEX_KEY}
