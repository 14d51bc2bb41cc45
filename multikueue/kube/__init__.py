"""The API of one cluster: bytes on the wire; typed values and our own errors for the caller.

`auth` has the credentials (through kubernetes_asyncio, which no other room imports) and the security rules of a worker's
kubeconfig, `transport` the HTTP below the calls. `client` makes these with deadlines and retries, `reflector` keeps a
sink equal to a collection, and `relatives` tells which objects there belong to a workload. Objects are kept in `store`,
which is wired in as a sink; decisions are made in `controllers`. Callers use the protocols of `cluster_client`; only code
that opens a connection imports `client`.
"""
