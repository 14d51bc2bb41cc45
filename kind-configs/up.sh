#!/usr/bin/env bash
# Bring up the clusters of kind-configs/: a manager with Kueue's CRDs, three workers with Kueue, the workers registered.
# Usage: up.sh KUBECONFIG, the file that gets one context per cluster. Doing it again mends what is missing, and renews the
# workers' credentials; queues and jobs stay.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
mkdir -p "$(dirname "$1")"
KUBECONFIG=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
export KUBECONFIG
multikueue=$here/../.venv/bin/multikueue
workers=(worker-1 worker-2 worker-3)

for program in docker kind kubectl; do
  command -v "$program" >/dev/null || { echo "kind-up needs $program" >&2; exit 1; }
done

# Not through a pipe: grep -q ends at the first match, and kind would fail to write the rest.
existing=$'\n'$(kind get clusters 2>/dev/null)$'\n'
create() {
  if [[ $existing == *$'\n'"$1"$'\n'* ]]; then
    kind export kubeconfig --quiet --name "$1"
  else
    kind create cluster --config "$here/$1.yaml" --wait 2m
  fi
}

for cluster in manager "${workers[@]}"; do
  create "$cluster"
done

kubectl --context kind-manager apply --server-side -k "$here/crds"
for worker in "${workers[@]}"; do
  kubectl --context "kind-$worker" apply --server-side -k "$here/kueue"
done
for worker in "${workers[@]}"; do
  kubectl --context "kind-$worker" -n kueue-system rollout status deployment/kueue-controller-manager --timeout 5m
done
kubectl --context kind-manager wait --for condition=Established --timeout 1m crd --all

for worker in "${workers[@]}"; do
  "$multikueue" clusters register "$worker" --context "kind-$worker" --manager-context kind-manager --view-pods
done

# Where the API server of the manager, in its container, finds a process on this machine: the first IPv4 gateway.
gateway=$(docker network inspect kind --format '{{range .IPAM.Config}}{{println .Gateway}}{{end}}' | grep -m 1 -F . || true)

cat <<END

Next:
  export KUBECONFIG=$KUBECONFIG
  export MULTIKUEUE_WEBHOOK__ENABLED=true MULTIKUEUE_WEBHOOK__URL=https://${gateway:-ADDRESS}:9443
  kubectl --context kind-manager apply -f kind-configs/queues/manager.yaml
  for i in 1 2 3; do kubectl --context kind-worker-\$i apply -f kind-configs/queues/worker.yaml; done
  make run ARGS="--context kind-manager"
  kubectl --context kind-manager create -f kind-configs/queues/job.yaml
END
