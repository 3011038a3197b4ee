"""Texts of devices, models and files as a terminal may show them."""


def plain(text: str, longest: int | None = None) -> str:
    """Return one line in which nothing moves the cursor: "?" for what is no printable character."""
    return "".join(c if c.isprintable() else "?" for c in text[:longest])
