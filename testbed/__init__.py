"""The testbed: real etcd, kube-apiserver and Kueue on loopback; kube-controller-manager and OCM where asked for.

Tests under `tests/real`, the benchmarks and the demo live on it; nothing in `multikueue` imports it. Start with
`testbed.bed.Testbed`. `make testbed` builds the programs first.
"""
