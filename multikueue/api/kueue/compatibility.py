"""What releases of Kueue decide or say differently: one switch for each change, all of them in one place.

A switch is named for what the newer release does, and has the number of Kueue's pull request, issue or KEP. Who decides
looks at the switch and never at the release, so there is one set of rules. `of` gives the switches of a release.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

Release = Literal["0.16", "0.18", "0.19", "0.19.2"]


class Compatibility(msgspec.Struct, frozen=True, kw_only=True):
    """The switches; the defaults are those of the newest release."""

    is_fair_within_nominal: bool = True
    """#9494, since 0.17 and 0.16.3: under fair sharing a ClusterQueue that stays within its nominal quota of what is
    contested preempts whatever the shares say, and that is reclamation."""

    has_admitting_words: bool = True
    """#13124, since 0.19: the check says that a worker admitted the workload, and not that it reserved quota for it; and
    when it ends an attempt, in which state it was before."""

    has_access_providers: bool = True
    """KEP 693, since 0.19: who makes credentials for a ClusterProfile is an access provider, no credentials provider."""

    has_admission_gates: bool = True
    """KEP 6915, gate AdmissionGatedBy, on since 0.19: an annotation holds work back until somebody takes it away."""

    has_deprecated_paths: bool = True
    """#12144, since 0.19: kubeconfigs that are named by any path are warned of."""

    most_pod_sets: int = 18
    """#12819: a Workload may have 18 pod sets since 0.19, 10 since 0.18 (#11388), and 8 before."""

    has_ray_sidecars: bool = True
    """#12454 and #12405, since 0.19: what KubeRay puts into the head of a Ray cluster takes quota, the submitter of a RayJob
    and the autoscaler."""

    has_ray_redis_cleanup: bool = True
    """#11260, since 0.17 and 0.18 in later patches: the head of a Ray cluster that survives the loss of its head takes at
    least as much as the job that cleans its Redis afterwards."""

    has_identifier_annotations: bool = True
    """#10311, gate WorkloadIdentifierAnnotations, since 0.18: jobs name their Workload, and Pods their group, in an annotation,
    too, and that goes first; before, in a label alone."""

    is_fair_by_flavor: bool = True
    """#10149, since 0.17 and 0.16.3: under fair sharing heads go first at each level of the tree whose side borrows nothing
    there of what they ask for; before, those go first that borrow nothing from their ClusterQueue on. And who borrows may
    be preempted also where nothing of the resource could be lent any more, so that the share is 0."""

    has_labels_by_flavor: bool = True
    """#12449, since 0.17.6 and 0.18.1: of the node selector of a pod only the keys count that the flavor in question
    declares; before, those that any flavor of its resource group declares."""

    has_equivalence_classes: bool = True
    """#9698 and #11097, since 0.17, gate SchedulingEquivalenceHashing: in a BestEffortFIFO queue a head that fits nowhere is
    parked together with all that ask for the same, and until the next flush who comes and asks for the same is parked
    unseen; before, each had its own turn."""

    has_orphan_ends: bool = True
    """#11596, gate FinishOrphanedWorkloads, since 0.18: a Workload whose job is gone, and has left it behind, is finished."""

    is_zero_ignored: bool = True
    """#9808, since 0.18: a resource that is requested as 0 is nothing to preempt for; before, a ClusterQueue that borrows of
    it already could not preempt within its nominal quota."""

    has_check_messages: bool = True
    """#10623, since 0.18: the message of an eviction by checks names each with what it says."""

    has_exact_products: bool = True
    """#12953, since 0.19: what is transformed is multiplied exactly; before, factors were rounded up to whole units."""

    has_pod_limits: bool = True
    """#12780, since 0.19: limits of the pod as a whole stand in for its requests and bound them, and a LimitRange has
    defaults for them."""

    has_zero_initial_usage: bool = True
    """#12891, since 0.19: where LocalQueues take turns, the history of one that is new begins with nothing; before, with
    what it used at that moment."""

    counts_devices: bool = True
    """KEP 2941, gate KueueDRAIntegration, on since 0.18: devices that pods claim count, and work that claims others waits;
    before, with gate DynamicResourceAllocation off, they are ignored."""

    counts_extended_resources: bool = True
    """The same, gate KueueDRAIntegrationExtendedResource, on since 0.19: so do extended resources with devices behind them."""

    has_device_details: bool = True
    """The same, since 0.18: a claim may have constraints, configuration and selectors."""

    has_failed_indexes: bool = True
    """#13717, since 0.19.1: the indexes of a Job that failed for good give their quota back, as those that succeeded do."""

    has_unmultiplied_inputs: bool = True
    """#14032, since 0.19.1: what is transformed with `multiplyBy` and kept counts as it was requested; before, it was
    multiplied, too."""

    has_hopeless_flavors_last: bool = True
    """#13896, since 0.19.1: a flavor in which nobody can be preempted is worse than any that fits or gives candidates; before,
    one that borrows less came first with PreemptionOverBorrowing, and work waited for it for ever."""

    has_lasting_searches: bool = True
    """#13956, gate FlavorFungibilityPreserveScanProgress, on since 0.19.1: who is the head again goes on with its search for
    flavors, though quota was given or freed meanwhile, or another head was faster; before, it began with the first flavor."""

    has_exact_usage: bool = True
    """#13761, since 0.19.1: where LocalQueues take turns, what one used is known to a billionth of each resource; before, to a
    thousandth, so that little usage beside a long half-life never showed."""

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
