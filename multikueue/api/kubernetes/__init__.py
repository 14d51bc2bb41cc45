"""Objects that Kubernetes itself has: namespaces and secrets, definitions, leases, events, pods as people see them."""
