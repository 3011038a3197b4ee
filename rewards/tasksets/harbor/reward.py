"""Rewards of Harbor's tests: the numbers in `reward.json` or `reward.txt`, which a stranger wrote."""

import json
from typing import Any

MOST = 4096  # bytes of a file
_MOST_PARTS = 64


def read(name: str, data: bytes) -> tuple[float, dict[str, float]]:
    """The reward, and all numbers of a file by their names.

    Of several numbers the one that is called "reward" counts, or the only one. Raises ValueError, in one
    line, for what is no reward between 0 and 1.
    """
    if len(data) > MOST:
        raise ValueError(f"{name} has more than {MOST} bytes")
    try:
        text = data.decode()
        found: Any = json.loads(text) if name.endswith(".json") else {"reward": float(text)}
    except (ValueError, RecursionError):
        raise ValueError(f"{name} holds no number: {data[:40]!r}") from None
    if not isinstance(found, dict):
        found = {"reward": found}
    if not 1 <= len(found) <= _MOST_PARTS:
        raise ValueError(f"{name} holds {len(found)} numbers, and may hold 1 to {_MOST_PARTS}")
    parts = {key: _number(name, key, value) for key, value in found.items()}
    key = "reward" if "reward" in found else next(iter(found))
    if len(found) > 1 and key != "reward":
        raise ValueError(f"{name} holds several numbers, and none of them is called 'reward'")
    return parts[key], parts


def _number(name: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # as only NaN does
        raise ValueError(f"{name}: {key[:40]!r} is no number: {str(value)[:40]!r}")
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: {key[:40]!r} is {str(value)[:40]}, and a score is between 0 and 1")
    return float(value)
