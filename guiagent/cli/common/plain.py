"""Texts of devices, models and files as a terminal may show them."""


def plain(text: str, longest: int | None = None) -> str:
    """Return one line in which nothing moves the cursor: "?" for what is no printable character."""
    return "".join(c if c.isprintable() else "?" for c in text[:longest])


def plain_lines(text: str) -> str:
    """Return the same lines, each as `plain` has it."""
    return "\n".join(map(plain, text.split("\n")))
