"""Metrics by OSWorld's names: what was brought from the device, and what was expected, to a number in [0, 1].

A metric is `metric(result, expected, **options)`, or `metric(result, **options)` where nothing is expected.
Files are `Path`s on the host; None stands for what was not there and scores 0. A metric that cannot read the
*expected* file raises `InfrastructureError`; one that cannot read the agent's scores 0.
"""

from collections.abc import Callable
from importlib import import_module

from rewards.checks.metrics import general, office

Metric = Callable[..., float]

# name: "module:function", below this package; imported when first used, since parsers are heavy.
METRICS: dict[str, str] = {
    **{name: f"office.{place}" for name, place in office.METRICS.items()},
    **{name: f"general.{place}" for name, place in general.METRICS.items()},
}


def load(name: str) -> Metric:
    """The metric of that name; KeyError where there is none."""
    module, function = METRICS[name].split(":")
    metric: Metric = getattr(import_module(f"{__name__}.{module}"), function)
    return metric
