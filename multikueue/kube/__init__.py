"""Speaks to the API server of one cluster: bytes out and in, typed values and our own errors to the caller.

Here belong credentials (with kubernetes_asyncio's help, which no other room knows), the security rules of a worker's
kubeconfig, the calls with their deadlines and retries, and the reflector that keeps a sink equal to a collection. What
was seen is not kept here (that is `store`, wired in as a sink) and nothing is decided here (`controllers`). Whoever
is handed a client takes it as the protocols of `cluster_client`; only who opens one knows `client`. It imports `api`
and `errors`.
"""
