"""Joins a worker cluster to the manager, checks it, and removes it again.

`discovery` tells what could be a worker (pure), `plan` lists the objects on either side (pure), `ownership` creates or
updates one object and never touches one that is not ours, `credentials` gets a credential and puts it into a kubeconfig,
`preflight` checks the worker with the manager's credential, `join` calls these in order. Everything is safe to repeat.
`members` tells which workers there should be by an inventory, and `fleet` what is left to do until there are (both pure):
`controllers.fleet` asks them in the running manager, and does that. Else `cli` alone calls this room.
"""
