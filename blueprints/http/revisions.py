"""Revisions in: which one a client read of what it changes, from the body or the If-Match header."""

import re

from flask import request

from marketplace.kernel.errors import ValidationError

# As we show a revision (a number), or as an entity tag, weak or strong, around it.
_REVISION_PATTERN = re.compile(r'(?:W/)?"(\d{1,18})"|(\d{1,18})')


def expected_revision(body_revision: int | None) -> int | None:
    """Tell which revision a client expects, if it says so.

    :param body_revision: the body's ``revision``, if any
    :return: the revision, or none not to compare: nothing was said, or ``If-Match: *``
    :raises ValidationError: the header is no revision, or says another one than the body
    """
    header = request.headers.get("If-Match")
    if header is None or header.strip() == "*":
        return body_revision
    match = _REVISION_PATTERN.fullmatch(header.strip())
    if match is None:
        raise ValidationError.of("If-Match", "Must be one revision, such as 3.")
    revision = int(match[1] or match[2])
    if body_revision not in (None, revision):
        raise ValidationError.of("If-Match", "Says another revision than the body.")
    return revision
