"""Every knob, grouped by concern, frozen, and read from flags, environment and file here and nowhere else.

A value comes from the strongest source that has it: a flag, then the environment (`MULTIKUEUE_DISPATCH__ORIGIN`, two
underscores between levels), then the YAML file, then the default. Durations are written as in Kubernetes (`15m`,
`1m30s`, `500ms`), as ISO 8601 (`PT15M`) or as seconds. `tree` holds the groups and their fields, `values` the kinds of
values, `sources` what wins, `problems` how errors read, `kueue` what Kueue's own file means, `live` what changes at run
time, and the times that nobody sets.

Outside of `cli` and `manager` a room receives its own group or a plain value, never the whole tree.
"""

from multikueue.settings.kueue import Ignored
from multikueue.settings.live import InForce, SettingsChange, Timings
from multikueue.settings.problems import expectation
from multikueue.settings.sources import ENV_PREFIX, LEVEL, Loaded, load, read
from multikueue.settings.tree import (
    BESIDE_KUEUE,
    EXTERNAL_DISPATCHER,
    STANDALONE,
    AccessProvider,
    AdmissionSharing,
    CapacityFollow,
    Cluster,
    ClusterProfiles,
    DeclaredKind,
    DeclaredOverhead,
    DeclaredPods,
    DeclaredRule,
    DeviceClassMapping,
    Dispatch,
    DynamicResources,
    ExecCommand,
    FleetMembers,
    Integrations,
    LeaderElection,
    Leaf,
    Log,
    MetricsEndpoint,
    PodsReady,
    Probes,
    Quota,
    Retention,
    Role,
    Settings,
    Shutdown,
    StrategyChoice,
    Variable,
    VisibilityApi,
    Webhook,
    leaves,
)

__all__ = [
    "BESIDE_KUEUE",
    "ENV_PREFIX",
    "EXTERNAL_DISPATCHER",
    "LEVEL",
    "STANDALONE",
    "AccessProvider",
    "AdmissionSharing",
    "CapacityFollow",
    "Cluster",
    "ClusterProfiles",
    "DeclaredKind",
    "DeclaredOverhead",
    "DeclaredPods",
    "DeclaredRule",
    "DeviceClassMapping",
    "Dispatch",
    "DynamicResources",
    "ExecCommand",
    "FleetMembers",
    "Ignored",
    "InForce",
    "Integrations",
    "LeaderElection",
    "Leaf",
    "Loaded",
    "Log",
    "MetricsEndpoint",
    "PodsReady",
    "Probes",
    "Quota",
    "Retention",
    "Role",
    "Settings",
    "SettingsChange",
    "Shutdown",
    "StrategyChoice",
    "Timings",
    "Variable",
    "VisibilityApi",
    "Webhook",
    "expectation",
    "leaves",
    "load",
    "read",
]
