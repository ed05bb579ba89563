"""Error messages of uploads."""

IMAGE_UPLOAD_EXPIRED = "The upload took too long and was cancelled. Upload the image again."
IMAGE_NOT_UPLOADED = "The image is not among your uploads for this purpose. Upload the image first."
IMAGES_NOT_UPLOADED = (
    "An image is not among your uploads for this purpose. Upload the image first, then send its id."
)

DOCUMENT_EMPTY = "The file is empty. Choose a PDF document or a picture."
DOCUMENT_NOT_UPLOADED = (
    "Must be the path of a document that you uploaded in the last 24 hours and have not used."
)
DOCUMENT_DELETED = "The document was deleted."
TOO_MANY_DOCUMENTS = "You can upload at most {limit} documents a day. Try again tomorrow."
