"""Speaks to the API server of one cluster: bytes out and in, typed values and our own errors to the caller.

Here belong credentials (with kubernetes_asyncio's help, which no other room knows), the security rules of a worker's
kubeconfig, the calls with their deadlines and retries, and the reflector that keeps a sink equal to a collection. What
was seen is not kept here (that is `store`, wired in as a sink) and nothing is decided here (`controllers`). Its users
are `manager` and `controllers`; it imports `api` and `errors`.
"""
