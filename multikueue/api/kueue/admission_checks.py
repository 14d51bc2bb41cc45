"""Kueue's AdmissionCheck (v1beta2), and what a MultiKueueCluster has in common with it."""

from __future__ import annotations

from multikueue.api.meta import Condition, Object, Value

CONTROLLER_NAME = "kueue.x-k8s.io/multikueue"
"""AdmissionCheck.spec.controllerName, the jobs' managedBy, and Kueue's field manager: one string, three uses."""

ACTIVE = "Active"
"""The condition by which Kueue says that an AdmissionCheck, a cluster or a ClusterQueue can be used."""


class ConditionedStatus(Value):
    conditions: tuple[Condition, ...] = ()


class Parameters(Value):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class AdmissionCheckSpec(Value):
    controller_name: str = ""
    parameters: Parameters | None = None


class AdmissionCheck(Object):
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: ConditionedStatus = ConditionedStatus()
