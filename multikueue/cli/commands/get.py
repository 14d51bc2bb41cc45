"""`multikueue get`: the lists, in kubectl's word order."""

from __future__ import annotations

from multikueue.cli.access.groups import group
from multikueue.cli.commands.clusters.group import list_clusters
from multikueue.cli.commands.queues.group import list_queues
from multikueue.cli.commands.workloads.listing import list_workloads

__all__ = ["app"]

app = group("get", "List workloads, queues or clusters, as kubectl does.")

app.command("jobs")(list_workloads)
app.command("workloads")(list_workloads)
app.command("queues")(list_queues)
app.command("clusters")(list_clusters)
