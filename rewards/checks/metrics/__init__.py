"""Metrics by OSWorld's names: compare a result from the device with what is expected, as a number in [0, 1].

A metric is `metric(result, expected, **options)`, or `metric(result, **options)` if nothing is expected.
Files are `Path`s on the host; None stands for something missing and scores 0. A metric that cannot read the
*expected* file raises `InfrastructureError`; one that cannot read the agent's file scores 0.
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

# Metrics that run sandboxes, and so cannot be computed in one.
WITH_SANDBOXES = frozenset({"check_python_file_by_test_suite"})


def load(name: str) -> Metric:
    """Import the metric of that name. Raises KeyError if there is none."""
    module, function = METRICS[name].split(":")
    metric: Metric = getattr(import_module(f"{__name__}.{module}"), function)
    return metric
