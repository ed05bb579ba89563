"""Error messages of uploads."""

IMAGE_UPLOAD_EXPIRED = "The upload took too long and was cancelled. Upload the image again."
IMAGE_NOT_UPLOADED = "The image is not among your uploads for this purpose. Upload the image first."
IMAGES_NOT_UPLOADED = (
    "An image is not among your uploads for this purpose. Upload the image first, then send its id."
)
