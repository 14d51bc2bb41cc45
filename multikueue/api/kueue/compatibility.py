"""What releases of Kueue decide or say differently: one switch for each change, all of them in one place.

A switch is named for what the newer release does. Its docstring has the release, and the number of Kueue's pull request,
issue or KEP; `make docs` writes them into docs/compatibility.md. Decisions look at the switch and never at the release, so
there is one set of rules. `of` gives the switches of a release.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

Release = Literal["0.16", "0.18", "0.19", "0.19.2"]


class Compatibility(msgspec.Struct, frozen=True, kw_only=True):
    """The switches; the defaults are those of the newest release."""

    is_fair_within_nominal: bool = True
    """Since 0.17 and 0.16.3 (#9494): Fair sharing: a ClusterQueue that stays within its nominal quota of what is
    contested preempts whatever the shares say, and that is reclamation (gate `FairSharingPreemptWithinNominal`).
    Before: The shares decide, and the reason is `InCohortFairSharing`."""

    has_admitting_words: bool = True
    """Since 0.19 (#13124): The check says that a worker admitted the workload and, when it ends an attempt, in which
    state it was before. Before: It says that the workload got a reservation there."""

    has_access_providers: bool = True
    """Since 0.19 (KEP 693): Access providers make credentials for a ClusterProfile. Before: Credentials providers
    do."""

    has_admission_gates: bool = True
    """Since 0.19 (KEP 6915): The annotation `kueue.x-k8s.io/admission-gated-by` of a job holds it back (gate
    `AdmissionGatedBy`). Copies do not have it. With an older release `quota.admission_gates` switches it on."""

    has_deprecated_paths: bool = True
    """Since 0.19 (#12144): A kubeconfig by any path is warned of, `DeprecatedPathUsage`, unless
    `dispatch.kubeconfig_directory` is set."""

    most_pod_sets: int = 18
    """Since 0.19 (#12819): A Workload may have 18 pod sets. Where a worker's are fewer, the workload goes elsewhere.
    Before: 10 since 0.18 (#11388), else 8."""

    has_ray_sidecars: bool = True
    """Since 0.19 (#12454, #12405): What KubeRay puts into the head of a Ray cluster takes quota: the submitter of a
    RayJob, and the autoscaler, which our webhook refuses in a queue."""

    has_ray_redis_cleanup: bool = True
    """Since 0.17 and 0.18 in later patches (#11260): The head of a Ray cluster whose state is in Redis takes at least
    as much as the job that cleans up after it. Here with 0.18 or newer."""

    has_identifier_annotations: bool = True
    """Since 0.18 (#10311): A job names its Workload, and a Pod its group, in an annotation, too, which is read before
    the label (gate `WorkloadIdentifierAnnotations`). Copies have the labels, unless the name is too long for one: then
    they go to workers with 0.18 or newer only. Before: In a label alone."""

    is_fair_by_flavor: bool = True
    """Since 0.17 and 0.16.3 (#10149): Fair sharing: at each level of the tree those heads go first whose side borrows
    nothing there of what they ask for. Who borrows may be preempted also where nothing of the resource can be lent any
    more, so that the share is 0. Before: Those go first whose ClusterQueue borrows nothing, whatever its cohort does;
    who has a share of 0 is spared."""

    has_labels_by_flavor: bool = True
    """Since 0.17.6 and 0.18 (#12449): Of a pod's node selector and affinity, the keys count that the flavor in question
    declares. Before: Those that any flavor of its resource group declares."""

    has_equivalence_classes: bool = True
    """Since 0.17 (#9698, #11097): In a BestEffortFIFO queue, a head that fits nowhere is parked with all that ask for
    the same, and until the next flush who comes and asks for the same is parked unseen (gate
    `SchedulingEquivalenceHashing`). Before: Each has its own turn: who comes by itself may take what has just become
    free, before parked work is woken."""

    has_orphan_ends: bool = True
    """Since 0.18 (#11596): A Workload whose job is gone is Finished, `OwnerNotFound` (gate `FinishOrphanedWorkloads`):
    on the manager once nothing of it runs on a worker. On a worker it is no result of the job, and the workload is
    dispatched again. Before: It stays."""

    is_zero_ignored: bool = True
    """Since 0.18 (#9808): A resource that is requested as 0 is nothing to preempt for. Before: A ClusterQueue that
    borrows of it cannot preempt within its nominal quota."""

    has_check_messages: bool = True
    """Since 0.18 (#10623): The message of an eviction by checks names each with what it says. Before: "At least one
    admission check is false"."""

    has_exact_products: bool = True
    """Since 0.19 (#12953): Transformations multiply exactly: 300m of an input are 0.3. Before: Factors are rounded up
    to whole units."""

    has_pod_limits: bool = True
    """Since 0.19 (#12780): Limits of a pod as a whole stand in for its requests and bound them, and LimitRanges of type
    Pod have defaults for them. Before: Its requests alone count."""

    has_zero_initial_usage: bool = True
    """Since 0.19 (#12891): Turns of LocalQueues: the history of a new one begins with nothing. Before: With what it
    uses at that moment."""

    counts_devices: bool = True
    """Since 0.18 (KEP 2941): Devices that pods claim count by DeviceClass (`quota.dra`), and work that claims others,
    or by name, waits (gates `KueueDRAIntegration`, `KueueDRARejectWorkloadsWhenDRADisabled`). Before: Claims are
    ignored, unless the gate `DynamicResourceAllocation` is on."""

    counts_extended_resources: bool = True
    """Since 0.19 (KEP 2941): Extended resources count as the devices behind them (gate
    `KueueDRAIntegrationExtendedResource`). Before: As what pods request."""

    has_device_details: bool = True
    """Since 0.18 (KEP 2941): Templates of claims may have selectors, constraints and configuration. Before: They are
    refused."""

    has_failed_indexes: bool = True
    """Since 0.19.1 (#13717): Indexes of a Job that failed for good give their quota back. Before: Only those that
    succeeded do."""

    has_unmultiplied_inputs: bool = True
    """Since 0.19.1 (#14032): Transformations with `multiplyBy` multiply the outputs; an input that is kept counts as it
    was requested. Before: The input that is kept is multiplied, too."""

    has_hopeless_flavors_last: bool = True
    """Since 0.19.1 (#13896): A flavor in which no workload can be preempted is worse than any that fits or gives candidates.
    Before: With `PreemptionOverBorrowing` it comes first if it borrows less, and work may wait for it forever."""

    has_lasting_searches: bool = True
    """Since 0.19.1 (#13956): Who is the head again goes on with its search for flavors, though quota was given back
    meanwhile or another head was faster (gate `FlavorFungibilityPreserveScanProgress`). Before: The search begins with
    the first flavor again, and may never come to a later one."""

    has_exact_usage: bool = True
    """Since 0.19.1 (#13761): Turns of LocalQueues: what one used is known to a billionth of each resource. Before: To a
    thousandth: one cpu beside a half-life of a week never shows."""

    @classmethod
    def of(cls, release: Release) -> Compatibility:
        """The switches of a release: a minor without a patch is the first that was followed, 0.16.2, 0.18.2 and 0.19.0."""
        return _RELEASES[release]


NEWEST = Compatibility()
_0_19 = replace(
    NEWEST,
    has_failed_indexes=False,
    has_unmultiplied_inputs=False,
    has_hopeless_flavors_last=False,
    has_lasting_searches=False,
    has_exact_usage=False,
)
_0_18 = replace(
    _0_19,
    has_admitting_words=False,
    has_access_providers=False,
    has_admission_gates=False,
    has_deprecated_paths=False,
    most_pod_sets=10,
    has_ray_sidecars=False,
    has_exact_products=False,
    has_pod_limits=False,
    has_zero_initial_usage=False,
    counts_extended_resources=False,
)
_0_16 = replace(
    _0_18,
    has_orphan_ends=False,
    is_fair_within_nominal=False,
    is_fair_by_flavor=False,
    has_labels_by_flavor=False,
    has_equivalence_classes=False,
    is_zero_ignored=False,
    has_check_messages=False,
    has_identifier_annotations=False,
    has_ray_redis_cleanup=False,
    counts_devices=False,
    has_device_details=False,
    most_pod_sets=8,
)

_RELEASES: dict[Release, Compatibility] = {"0.16": _0_16, "0.18": _0_18, "0.19": _0_19, "0.19.2": NEWEST}
