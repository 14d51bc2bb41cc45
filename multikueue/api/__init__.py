"""Kubernetes, Kueue and OCM objects as frozen typed values, straight from bytes.

Here belong the shapes of objects, their constants and exact quantities; no decision and no I/O. A subtree that we only
carry (a job's spec, a pod template) stays raw bytes, so that a worker gets what the user wrote, byte for byte. A value
drops the fields it does not know, so a whole value is never written back: writes are patches of named fields or copies of
raw bytes. Any room may import this one; it imports `errors` only.

`meta` is what all objects have, `kind` what a kind is, and `kinds` the table of all that we know. Between them a room for
each source: `kubernetes`, `jobs`, `kueue`, `multikueue`; `values` has what is read or written in a way of its own.
"""
