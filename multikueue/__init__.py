"""A MultiKueue manager: queues jobs on one cluster and runs them on many.

The rooms, from the top: `client` (public, jobs from Python), `cli` (commands), `testing` (public, for authors of strategies),
`manager` (composition root), `roles` (the controllers of a process), `controllers` (ask the store, decide, apply) |
`registration` (joins a worker), `web` (endpoints) | `store` (state) | `kube` (API calls) | `registry` (strategies), `quota` |
`dispatch` | `jobs` (pure decisions) | `runtime` (generic async machinery), `strategy` (public contract), `api` (Kubernetes
objects as frozen values). Imports point downward only; docs/architecture.md explains each.
"""

__version__ = "0.1.0"
