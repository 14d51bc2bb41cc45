"""What a pending workload asks for, by all there is that says so: transformations, limits of its namespace, devices."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from multikueue.api.kueue.workload import Workload, WorkloadSpec, WorkloadStatus, workload_spec
from multikueue.api.values import quantity
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

    def surplus(self, workload: Workload, template: msgspec.Raw) -> str:
        """What a pod asks for beyond a pod of the one pod set that its Workload counts, in words; empty if nothing.

        Both are counted by the same rules, so what a LimitRange or RuntimeClass adds is no surplus. Raises InvalidObject as
        `demand` does.
        """
        fresh, spec = replace(workload, status=WorkloadStatus()), workload_spec(workload)
        (counted, asked) = (
            self.demand(fresh, replace(spec, pod_sets=(replace(spec.pod_sets[0], template=each, count=1),)))
            for each in (spec.pod_sets[0].template, template)
        )
        if asked.problem or not asked.pod_sets or not counted.pod_sets:
            return asked.problem or "it cannot be counted"
        limits = counted.pod_sets[0].requests
        for name, amount in asked.pod_sets[0].requests.items():
            if amount > limits.get(name, 0):
                return f"{name} {quantity.render(name, amount)}, and {quantity.render(name, limits.get(name, 0))} is counted"
        return ""
