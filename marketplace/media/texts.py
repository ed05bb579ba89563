"""Error messages of uploads."""

IMAGE_UPLOAD_EXPIRED = "The upload took too long and was cancelled. Upload the image again."
