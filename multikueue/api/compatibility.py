"""What releases of Kueue decide or say differently: one switch for each change, all of them in one place.

A switch is named for what the newer release does, and has the number of Kueue's pull request, issue or KEP. Who decides
looks at the switch and never at the release, so there is one set of rules. `of` gives the switches of a release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Release = Literal["0.16", "0.18", "0.19"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """The switches; the defaults are those of the newest release."""

    fair_within_nominal: bool = True
    """#9494, since 0.17 and 0.16.3: under fair sharing a ClusterQueue that stays within its nominal quota of what is
    contested preempts whatever the shares say, and that is reclamation."""

    admitting_words: bool = True
    """#13124, since 0.19: the check says that a worker admitted the workload, and not that it reserved quota for it; and
    when it ends an attempt, in which state it was before."""

    access_providers: bool = True
    """KEP 693, since 0.19: who makes credentials for a ClusterProfile is an access provider, no credentials provider."""

    paths_are_deprecated: bool = True
    """#12144, since 0.19: kubeconfigs that are named by any path are warned of."""

    most_pod_sets: int = 18
    """#12819: a Workload may have 18 pod sets since 0.19, 10 since 0.18 (#11388), and 8 before."""

    sidecars_of_ray_jobs: bool = True
    """#12454, since 0.19: the submitter that KubeRay puts into the head of a RayJob takes quota."""

    @classmethod
    def of(cls, release: Release) -> Compatibility:
        """The switches of a release; "0.16" is 0.16.2."""
        return _RELEASES[release]


NEWEST = Compatibility()
_0_18 = replace(
    NEWEST,
    admitting_words=False,
    access_providers=False,
    paths_are_deprecated=False,
    most_pod_sets=10,
    sidecars_of_ray_jobs=False,
)
_0_16 = replace(_0_18, fair_within_nominal=False, most_pod_sets=8)

_RELEASES: dict[Release, Compatibility] = {"0.16": _0_16, "0.18": _0_18, "0.19": NEWEST}
