"""What a pending workload asks for, by all there is that says so: transformations, limits of its namespace, devices."""

from __future__ import annotations

from multikueue.api.kueue.workload import Workload, WorkloadSpec
from multikueue.quota.requests.amounts import Accounting, Demand, demand
from multikueue.quota.requests.devices import DeviceRules, Devices
from multikueue.quota.requests.limits import LimitsByNamespace

__all__ = ["Counting"]


class Counting:
    """`limits` and `devices` know the objects of the cluster that count."""

    def __init__(self, accounting: Accounting, devices: DeviceRules) -> None:
        self._accounting = accounting
        self.limits = LimitsByNamespace(has_pod_defaults=accounting.compatibility.has_pod_limits)
        self.devices = Devices(devices)

    def demand(self, workload: Workload, spec: WorkloadSpec) -> Demand:
        """The demand as of now. Raises InvalidObject if a quantity cannot be parsed."""
        namespace = workload.metadata.namespace
        return demand(
            spec,
            workload.status.reclaimable_pods,
            accounting=self._accounting,
            rules=self.limits.of(namespace),
            devices=self.devices,
            namespace=namespace,
        )
