"""Texts of problems from the infrastructure, and of invalid settings."""

CHANGED_WHILE_POLLED = "The status changed while we fetched it from the provider. Try again."
CONCURRENT_CHANGE = "Another request changed the same data at the same time. Try again."
DATABASE_BUSY = "The database is busy. Try again in a few seconds."
DATABASE_UNAVAILABLE = "The database can't be reached."
DATABASE_ROLE_INCOMPLETE = (
    "The database role lacks these settings: {settings}."
    " Set them with ALTER ROLE, as docs/database-connections.md shows."
)
TRACING_NOT_INSTALLED = (
    "OTLP_TRACES_URL needs the packages of the extra `tracing`."
    " Install requirements/tracing.txt, or build the image with --build-arg REQUIREMENTS=tracing."
)

PICTURE_EMPTY_FILE = "The file is empty. Choose a JPEG, PNG, WebP or GIF picture."
PICTURE_UNSUPPORTED_FORMAT = "{field}: The file must be a JPEG, PNG, WebP or GIF picture."
PICTURE_WITHOUT_PIXELS = "The picture has no pixels. Choose another picture."
PICTURE_SIDE_TOO_LONG = (
    "The picture is {width} x {height} pixels. Each side may have at most {limit:,} pixels."
)
PICTURE_TOO_NARROW = (
    "The picture is {width} x {height} pixels. The longer side may be at most {limit} times the shorter side."
)
PICTURE_TOO_LARGE = (
    "The picture has {megapixels:.1f} megapixels. The limit for this format is {limit:g} megapixels."
)
PICTURE_DAMAGED = "The file is damaged or incomplete. Upload another copy."
PICTURE_TOO_MANY_SCANS = (
    "The JPEG file has more than {limit} scans. Save the picture as a standard JPEG and try again."
)
PICTURE_TOO_MANY_CHUNKS = (
    "The PNG file has more than {limit:,} chunks. Save the picture again and upload the new file."
)
PICTURE_TOO_COMPLEX = (
    "The picture is too complex to process. Save the picture as a standard JPEG and try again."
)
PICTURES_QUEUE_FULL = "Too many pictures are being processed. Try again in a few seconds."
PICTURE_TIMED_OUT = "The server is too busy to process the picture. Try again in a few seconds."

PDF_NOT_ONLY_PDF = "The file must be a PDF document and nothing else. Save the document again as PDF."
PDF_ENCRYPTED = "The document is protected. Save a copy without a password, and upload the copy."
PDF_ACTIVE = "The document contains scripts, actions or attachments. Print the document to a new PDF file."
PDF_DAMAGED = "The document is damaged or incomplete. Upload another copy."
PDF_PAGES = "The document must have 1 to {limit} pages."
PDF_TOO_COMPLEX = "The document is too complex to check. Print the document to a new PDF file."
DOCUMENT_UNSUPPORTED_FORMAT = "{field}: The file must be a PDF document or a JPEG, PNG, WebP or GIF picture."

SETTING_MISSING = "{variable} is missing. Set this variable: {description}"
FUNCTIONS_KEY_MISSING = "FUNCTIONS_KEY is missing. Set FUNCTIONS_KEY, FUNCTIONS_SIGNING_SECRETS or both."
SMTP_URL_MISSING = "SMTP_URL is missing. Set it, or leave ALERT_EMAIL_TO empty."
IDENTITY_SHARED_SECRET_MISSING = (
    "IDENTITY_SHARED_SECRET is missing. Set it, or remove HS256 from IDENTITY_ALGORITHMS."  # noqa: S105 - no secret
)
IDENTITY_JWKS_URL_MISSING = (
    "IDENTITY_JWKS_URL is missing. Set it, or remove RS256 and ES256 from IDENTITY_ALGORITHMS."
)

RECORDING_UNSUPPORTED_FORMAT = (
    "{field}: The file must be an audio or video file in MP4, MOV, WebM, Ogg, MP3, AAC or AMR."
)
RECORDING_DAMAGED = "The recording is damaged or incomplete. Send another copy."
RECORDING_CODEC = "The recording has an unsupported codec. Save the recording as MP4 with H.264 and AAC."
RECORDING_TOO_LARGE = "The picture of the recording must have at most {limit:.1f} megapixels."
RECORDING_TOO_LONG = "The recording must be at most {limit} minutes long."
RECORDING_TOO_COMPLEX = "The recording is too complex to check. Save the recording as MP4 with H.264 and AAC."
