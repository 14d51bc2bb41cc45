#!/usr/bin/env bash
# Delete the clusters that up.sh made, and their kubeconfig. Usage: down.sh KUBECONFIG
set -euo pipefail
export KUBECONFIG=$1

for cluster in manager worker-1 worker-2 worker-3; do
  kind delete cluster --name "$cluster"
done
rm -f "$KUBECONFIG"
