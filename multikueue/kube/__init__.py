"""The API of one cluster: bytes on the wire; typed values and our own errors for the caller.

This room has the credentials (through kubernetes_asyncio, which no other room imports), the security rules of a
worker's kubeconfig, the calls with their deadlines and retries, and the reflector that keeps a sink equal to a
collection, and how to tell which objects there belong to a workload (`relatives`). Objects are kept in `store`, which
is wired in as a sink; decisions are made in `controllers`. Callers use the protocols of `cluster_client`; only code
that opens a connection imports `client`. The room imports `api` and `errors`.
"""
