"""The connection to one worker.

`connection` is its subtree of tasks: `watches`, the `heartbeat` (with its `health`), the proof of which cluster it is
(`identities`), the `queue_watches` while quotas follow it, and the `outbox` that writes to it: the `breaker` says when,
`refused_calls` what follows from a refusal. Its credentials come from `kubeconfigs`; new ones are tried first
(`credentials_on_trial`), and the end of those in use is told in time (`credential_expiry`).
"""
