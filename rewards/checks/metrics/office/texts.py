"""Text of files, and how alike two texts are."""

from collections.abc import Hashable, Sequence
from pathlib import Path

from rapidfuzz.distance import Indel

from rewards.checks.metrics.general.reading import contents

_MAX_PRODUCT = 40_000_000_000  # of two lengths: about a second of comparing


def decoded(path: Path) -> str:
    """A text file in UTF-8 (with or without a mark), or else in Latin-1; UnreadableError where too large."""
    data = contents(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def squeezed(text: str) -> str:
    """The text with every run of white space as one blank, none at the ends."""
    return " ".join(text.split())


def similarity(one: str, other: str) -> float:
    """How much of two texts is common, 0 to 1: twice the longest common subsequence over both lengths.

    By characters; by words where the texts are so long that this would take long, and by the first words of
    those that are longer still. OSWorld calls the same number `fuzz.ratio` (times 100).
    """
    units: tuple[Sequence[Hashable], Sequence[Hashable]] = (one, other)
    if len(one) * len(other) > _MAX_PRODUCT:
        most = int(_MAX_PRODUCT**0.5)
        units = (one.split()[:most], other.split()[:most])
    return float(Indel.normalized_similarity(*units))
