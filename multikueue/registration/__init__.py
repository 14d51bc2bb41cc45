"""Joins a worker cluster to the manager, checks it, and removes it again.

`discovery` tells what could be a worker (pure), `plan` lists the objects on either side (pure), `ownership` creates or
updates one object and never touches one that is not ours, `credentials` gets a credential and puts it into a kubeconfig,
`preflight` checks the worker with the manager's credential, `join` calls these in order. Everything is safe to repeat.
Called by `cli` only: the running manager only renews the token that it has, and writes nothing but copies to a worker.
"""
