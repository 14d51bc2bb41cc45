"""The testbed: real etcd, kube-apiserver and Kueue on loopback; kube-controller-manager and OCM where asked for.

Tests under `tests/real`, the benchmarks and the demo use it; nothing in `multikueue` imports it. The entrance is
`testbed.bed.Testbed`. `make testbed` builds the programs first.
"""
