"""The names of our own objects on the manager cluster, for commands too, which load nothing of the servers."""

from __future__ import annotations

from multikueue.api.meta import ObjectKey

__all__ = ["CONFIGURATION", "MANAGED_BY"]

MANAGED_BY = {"app.kubernetes.io/managed-by": "multikueue"}
"""The label on all of them."""

CONFIGURATION = ObjectKey("", "multikueue-manager")
"""The registration of the admission webhook."""
