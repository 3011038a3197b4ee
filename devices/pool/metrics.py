"""Metrics of the pool service for Prometheus."""

from collections import Counter as Tally
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from guiagent.errors import Fault
from guiagent.wire import FarmInfo, StepRequest, Verb

_STEP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)
_START_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """The metrics of one service, in a registry of its own, so that several services fit in one process.

    Args:
        farm: returns the farm as the operator sees it now.
        used: returns device-seconds by tenant since the service began.
    """

    def __init__(self, farm: Callable[[], FarmInfo], used: Callable[[], dict[str, float]]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Present(farm, used))
        self._faults = Counter(
            "guiagent_faults", "Faults by origin", ("origin", "code"), registry=self._registry
        )
        self._refused = Counter(
            "guiagent_guardrail_refusals",
            "Verbs that guardrails refused",
            ("tenant",),
            registry=self._registry,
        )
        self._step = Histogram(
            "guiagent_step_seconds",
            "One step at the service, queueing for the device included",
            buckets=_STEP_BUCKETS,
            registry=self._registry,
        )
        self.lease_wait = Histogram(
            "guiagent_lease_wait_seconds", "From request to durable grant", registry=self._registry
        )
        self._starts = Histogram(
            "guiagent_start_seconds",
            "Starting a device, failed starts included",
            ("kind",),
            buckets=_START_BUCKETS,
            registry=self._registry,
        )
        self._resets = Histogram(
            "guiagent_reset_seconds",
            "Wiping and attesting a device between two leases",
            ("kind",),
            buckets=_STEP_BUCKETS,
            registry=self._registry,
        )

    def fault(self, fault: Fault) -> None:
        self._faults.labels(fault.origin, fault.code).inc()

    def refused(self, tenant: str) -> None:
        self._refused.labels(tenant).inc()

    def called(self, message: Verb[Any]) -> AbstractContextManager[object]:
        """Measure the time of a step; other verbs are not measured."""
        return self._step.time() if isinstance(message, StepRequest) else nullcontext()

    def started(self, kind: str) -> AbstractContextManager[object]:
        """Measure the time of a device's start."""
        return self._starts.labels(kind).time()

    def recycled(self, kind: str) -> AbstractContextManager[object]:
        """Measure the time of a device's reset between leases."""
        return self._resets.labels(kind).time()

    def render(self) -> bytes:
        """Return all metrics in Prometheus's text exposition format."""
        return generate_latest(self._registry)


class _Present(Collector):
    """Metrics that are computed from the farm's state at each scrape."""

    def __init__(self, farm: Callable[[], FarmInfo], used: Callable[[], dict[str, float]]) -> None:
        self._farm = farm
        self._used = used

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        farm = self._farm()
        devices = GaugeMetricFamily("guiagent_devices", "Devices by state", labels=("kind", "state"))
        for (kind, state), count in Tally((device.kind, device.state) for device in farm.devices).items():
            devices.add_metric((kind, state), count)
        yield devices
        yield GaugeMetricFamily("guiagent_queue_requests", "Lease requests that wait", value=farm.queue)
        oldest = max((one.waited_s for one in farm.waiting), default=0.0)
        yield GaugeMetricFamily("guiagent_queue_oldest_wait_seconds", "The longest wait", value=oldest)
        used = CounterMetricFamily(
            "guiagent_device_seconds", "Time that devices were held, by tenant", labels=("tenant",)
        )
        for tenant, seconds in self._used().items():
            used.add_metric((tenant,), seconds)
        yield used
