"""The quota engine as the settings want it."""

from __future__ import annotations

from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.values import quantity
from multikueue.quota.cache.consumed_resources import UsageDecay
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.preemption.fair import FairPreemption
from multikueue.quota.requests.amounts import Accounting, Transformation
from multikueue.quota.requests.devices import DeviceRules
from multikueue.quota.workload.outcome import Reasons
from multikueue.settings import AdmissionSharing, Quota

__all__ = ["device_rules", "engine_of"]


def engine_of(quota: Quota, *, has_elastic_jobs: bool = False) -> Engine:
    """An empty quota engine with these settings."""
    compatibility = Compatibility.of(quota.compatibility)
    return Engine(
        EngineRules(
            compatibility=compatibility,
            accounting=_accounting(quota),
            devices=device_rules(quota),
            fair_sharing=FairPreemption(quota.preemption_strategies) if quota.fair_sharing else None,
            admission_sharing=_decay(quota.admission_fair_sharing, compatibility),
            should_ignore_undeclared=quota.check_strategy == "IgnoreUndeclared",
            should_block_admission=quota.pods_ready.enabled and quota.pods_ready.block_admission,
            should_keep_place=quota.pods_ready.requeuing_timestamp == "Creation",
            should_check_gates=_told(quota.admission_gates, compatibility.has_admission_gates),
            reasons=Reasons(is_granular=quota.unadmitted_reasons, is_explicit=quota.explicit_status),
            has_non_preemptible=quota.non_preemptible,
            has_elastic_jobs=has_elastic_jobs,
        )
    )


def _decay(sharing: AdmissionSharing, compatibility: Compatibility) -> UsageDecay | None:
    if not sharing.enabled:
        return None
    return UsageDecay(
        half_life=sharing.usage_half_life_time,
        interval=sharing.usage_sampling_interval,
        weights=sharing.resource_weights,
        may_begin_with_usage=not compatibility.has_zero_initial_usage,
        is_cut_at_thousandths=not compatibility.has_exact_usage,
    )


def device_rules(quota: Quota) -> DeviceRules:
    """What devices count as, by these settings."""
    dra, compatibility = quota.dra, Compatibility.of(quota.compatibility)
    return DeviceRules(
        of_class={name: each.name for each in dra.device_class_mappings for name in each.device_class_names},
        is_counting=_told(dra.enabled, compatibility.counts_devices),
        should_refuse=compatibility.counts_devices,
        has_extended=_told(dra.extended_resources, compatibility.counts_extended_resources),
        has_details=compatibility.has_device_details,
    )


def _told(setting: bool | None, otherwise: bool) -> bool:
    return otherwise if setting is None else setting


def _accounting(quota: Quota) -> Accounting:
    rules = (
        Transformation(
            input=each.input,
            outputs={name: quantity.parse(text) for name, text in each.outputs.items()},
            should_replace=each.strategy == "Replace",
            multiply_by=each.multiply_by,
        )
        for each in quota.transformations
    )
    return Accounting(
        excluded=quota.exclude_resource_prefixes,
        transformations=tuple(rules),
        compatibility=Compatibility.of(quota.compatibility),
    )
