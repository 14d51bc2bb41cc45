"""A MultiKueue manager: holds the queue on one cluster and runs its jobs on many.

The rooms, from the top: `cli` (words to settings), `testing` (public, for authors of strategies), `manager` (composition
root), `controllers` (ask the store, decide, apply) | `registration` (joins a worker), `web` | `store` | `kube` | `registry`
(what we serve, know, call, and plug in), `quota` | `dispatch` | `jobs` | `runtime` (pure decisions, and generic async
machinery), `strategy` (public contract), `api` (Kubernetes objects as frozen values). Imports point downward only;
docs/architecture.md explains each.
"""

__version__ = "0.1.0"
