"""The service's figures for Prometheus."""

from collections import Counter as Tally

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from guiagent.errors import Fault
from guiagent.wire import FarmInfo

_STEP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)


class Metrics:
    """One registry per service, so that several can live in one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._devices = Gauge(
            "guiagent_devices", "Devices by state", ("kind", "state"), registry=self._registry
        )
        self._faults = Counter(
            "guiagent_faults", "Faults by origin", ("origin", "code"), registry=self._registry
        )
        self.step = Histogram(
            "guiagent_step_seconds",
            "One step at the service, queueing for the device included",
            buckets=_STEP_BUCKETS,
            registry=self._registry,
        )
        self.lease_wait = Histogram(
            "guiagent_lease_wait_seconds", "From request to durable grant", registry=self._registry
        )

    def fault(self, fault: Fault) -> None:
        self._faults.labels(fault.origin, fault.code).inc()

    def render(self, farm: FarmInfo) -> bytes:
        """The text exposition format."""
        self._devices.clear()
        for (kind, state), count in Tally((device.kind, device.state) for device in farm.devices).items():
            self._devices.labels(kind, state).set(count)
        return generate_latest(self._registry)
