"""Pictures within messages: decoded from data URLs, and re-encoded without metadata in a size for the model."""

import base64
import binascii
import re
import tempfile
from collections.abc import Sequence

from marketplace.assistant import texts
from marketplace.infra.imaging.sandboxed_decode import re_encode
from marketplace.kernel.errors import InvalidParam, UnsupportedMediaTypeError, ValidationError

MAX_PICTURES = 4
_LONGEST_SIDE = 1_024  # pixels; models scale larger pictures down
_DATA_URL = re.compile(r"data:image/(?:jpeg|png|webp|gif);base64,", re.IGNORECASE)


class PicturesNotReadError(ValidationError):
    """The configured model does not read pictures."""

    reason = "pictures-not-read"


def prepare_pictures(data_urls: Sequence[str], *, field: str, are_read: bool) -> list[str]:
    """Re-encode pictures.

    :param data_urls: pictures as data URLs in base64
    :param field: the request's name for the list, for error messages
    :param are_read: whether the configured model reads pictures
    :return: data URLs with pictures of at most 1,024 pixels
    :raises PicturesNotReadError: the model does not read pictures
    :raises ValidationError: a value is no data URL, or the picture is damaged or exceeds a limit
    """
    if data_urls and not are_read:
        raise PicturesNotReadError(
            texts.PICTURES_NOT_READ, invalid_params=[InvalidParam(field, texts.PICTURES_NOT_READ)]
        )
    return [_prepare(url, name=f"{field}[{position}]") for position, url in enumerate(data_urls)]


def _prepare(data_url: str, *, name: str) -> str:
    prefix = _DATA_URL.match(data_url)
    if prefix is None:
        raise ValidationError.of(name, texts.INVALID_PICTURE)
    try:
        content = base64.b64decode(data_url[prefix.end() :], validate=True)
    except binascii.Error:
        raise ValidationError.of(name, texts.INVALID_PICTURE) from None
    with tempfile.TemporaryFile() as file:
        file.write(content)
        try:
            picture = re_encode(file, name=name, sizes=(_LONGEST_SIDE,))
        except UnsupportedMediaTypeError:
            # The content is not a picture, although the data URL says so.
            raise ValidationError.of(name, texts.INVALID_PICTURE) from None
    rendition = picture.renditions[0]
    encoded = base64.b64encode(rendition.content).decode()
    return f"data:{rendition.content_type};base64,{encoded}"
