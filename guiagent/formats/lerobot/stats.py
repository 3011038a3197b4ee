"""Statistics of features as LeRobot keeps them, of each episode and of all: its policies scale by them.

Mean, standard deviation (of the population), least, greatest, count and five quantiles, for each number of a
vector and each channel of a picture. Those of all episodes are put together by its rule
(`lerobot/datasets/compute_stats.py`): quantiles by the mean of the episodes', weighted. Pure.
"""

import io
import math
from collections.abc import Sequence

from PIL import Image

Stats = dict[str, list[float]]
"""Of one feature: a number for each of its dimensions; "count" has one."""

_QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
NAMES = ("min", "max", "mean", "std", "count", *_QUANTILES)
_SIDE = 150  # pixels of a picture's longer side that are looked at, about
_MOST_PICTURES = 10  # of an episode


def of_numbers(rows: Sequence[Sequence[float]]) -> Stats:
    """Statistics of the columns of rows of equal length, of which there is one at least."""
    found: Stats = {name: [] for name in NAMES}
    for column in map(sorted, zip(*rows, strict=True)):
        mean = math.fsum(column) / len(column)
        found["min"].append(float(column[0]))
        found["max"].append(float(column[-1]))
        found["mean"].append(mean)
        found["std"].append(math.sqrt(math.fsum((one - mean) ** 2 for one in column) / len(column)))
        for name, share in _QUANTILES.items():
            place = share * (len(column) - 1)
            low, high = column[math.floor(place)], column[math.ceil(place)]
            found[name].append(low + (high - low) * (place - math.floor(place)))
    return found | {"count": [len(rows)]}


def of_pictures(pictures: Sequence[bytes]) -> Stats:
    """Statistics of the three channels of pictures, from 0 to 1, by some pixels of some of them."""
    every = math.ceil(len(pictures) / _MOST_PICTURES)
    shown = pictures[::every]
    counts = [0] * 768
    for data in shown:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG")) as image:
            step = max(1, max(image.size) // _SIDE)
            size = (max(1, image.width // step), max(1, image.height // step))
            few = image.resize(size, Image.Resampling.NEAREST)
        counts = [one + more for one, more in zip(counts, few.histogram(), strict=True)]
    found: Stats = {name: [] for name in NAMES}
    for channel in (counts[:256], counts[256:512], counts[512:]):
        pixels = sum(channel)
        mean = sum(value * count for value, count in enumerate(channel)) / pixels
        spread = sum((value - mean) ** 2 * count for value, count in enumerate(channel)) / pixels
        levels = [value for value, count in enumerate(channel) if count]
        told = {"min": levels[0], "max": levels[-1], "mean": mean, "std": math.sqrt(spread)}
        told |= {name: _level(channel, share * pixels) for name, share in _QUANTILES.items()}
        for name, value in told.items():
            found[name].append(value / 255)
    return found | {"count": [len(shown)]}


def _level(channel: Sequence[int], wanted: float) -> int:
    """The least value that at least so many pixels do not exceed."""
    seen = 0
    for value, count in enumerate(channel):
        seen += count
        if seen >= wanted and count:
            return value
    return 255


def together(one: Stats, more: Stats) -> Stats:
    """Statistics of two parts as one: exact but for the quantiles."""
    n, m = one["count"][0], more["count"][0]
    mean = [_mean(a, n, b, m) for a, b in zip(one["mean"], more["mean"], strict=True)]
    found: Stats = {
        "min": list(map(min, one["min"], more["min"])),
        "max": list(map(max, one["max"], more["max"])),
        "mean": mean,
        "std": [
            math.sqrt(_mean(s**2 + (a - all) ** 2, n, t**2 + (b - all) ** 2, m))
            for s, a, t, b, all in zip(one["std"], one["mean"], more["std"], more["mean"], mean, strict=True)
        ],
        "count": [n + m],
    }
    for name in _QUANTILES:
        found[name] = [_mean(a, n, b, m) for a, b in zip(one[name], more[name], strict=True)]
    return found


def _mean(a: float, n: float, b: float, m: float) -> float:
    return (a * n + b * m) / (n + m)
