"""Joining one worker cluster to the manager, looking whether it is fit, and taking it out again.

`plan` says which objects must exist on either side (pure), `ownership` brings one object there and never touches a
stranger's, `credentials` gets proof of identity and wraps it in a kubeconfig, `preflight` looks at the worker with the
manager's eyes, `join` puts these in order. Everything is safe to repeat. Called by `cli` only: the running manager
never makes credentials and never writes to a worker anything but copies.
"""
