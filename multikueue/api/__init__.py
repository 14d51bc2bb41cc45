"""Kubernetes, Kueue and OCM objects as frozen typed values, straight from bytes.

Here belong the shapes of objects, their constants and exact quantities; no decision and no I/O. A subtree that we only
carry (a job's spec, a pod template) stays raw bytes, so what goes to a worker is what came from the user, byte for byte.
A value forgets the fields it does not know, therefore a whole value is never written back: writes are patches of named
fields (`render`) or copies of raw bytes. Everybody may import this room; it imports `errors` only.
"""
