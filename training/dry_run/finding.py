"""A line of a dry run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One line of a dry run: what was found, or in `missing` the problem and how to solve it."""

    what: str
    found: str = ""
    missing: str = ""
