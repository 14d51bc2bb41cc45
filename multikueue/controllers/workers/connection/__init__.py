"""The connection to one worker.

`connection` is its subtree of tasks: `watches`, the `heartbeat`, the proof of which cluster it is (`identities`), and the
`outbox` that writes to it: the breaker in `health` says when, `refused_calls` what follows from a refusal. Its credentials
come from `kubeconfigs`; new ones are tried first, and the end of those in use is announced in time (`worker_credentials`).
"""
