"""The name of a person as other people see the name."""


def public_name(name: str | None) -> str:
    """Shorten a full name to the first name and the initial of the last name.

    :return: a general word for a person without a name
    """
    first, *others = (name or "").split()[:12] or ["Student"]
    return f"{first} {others[-1][0].upper()}." if others else first
