#!/usr/bin/env bash
# Bring up the clusters of kind-configs/: a manager with Kueue's CRDs, three workers with Kueue, the workers registered.
# Usage: up.sh KUBECONFIG, the file that gets one context per cluster. A second time it makes what is missing, applies all of
# it again and registers the workers again, which renews what ends soon; queues and jobs stay.
#   KIND_IMAGE  another node image than the pinned one
#   INSIDE=1    register the workers for a manager in a pod of the manager cluster, where 127.0.0.1 leads nowhere
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
mkdir -p "$(dirname "$1")"
KUBECONFIG=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
export KUBECONFIG
multikueue=$here/../.venv/bin/multikueue
workers=(worker-1 worker-2 worker-3)
# The last image of the testbed's Kubernetes, as released with kind 0.32.0: an image goes with that release of kind or later.
image=${KIND_IMAGE:-kindest/node:v1.36.1@sha256:3489c7674813ba5d8b1a9977baea8a6e553784dab7b84759d1014dbd78f7ebd5}

for program in docker kind kubectl; do
  command -v "$program" >/dev/null || { echo "kind-up needs $program" >&2; exit 1; }
done

# Not through a pipe: grep -q ends at the first match, and kind would fail to write the rest.
existing=$'\n'$(kind get clusters 2>/dev/null)$'\n'
create() {
  if [[ $existing == *$'\n'"$1"$'\n'* ]]; then
    kind export kubeconfig --quiet --name "$1"
  else
    kind create cluster --config "$here/$1.yaml" --image "$image" --wait 2m
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
  # Docker's network knows each node by its name, which is in the certificate of its API server.
  inside=${INSIDE:+https://$worker-control-plane:6443}
  "$multikueue" clusters register "$worker" --context "kind-$worker" --manager-context kind-manager --view-pods \
    ${inside:+--server "$inside"}
done

# Where the API server of the manager, in its container, finds a process on this machine: the first IPv4 gateway.
gateway=$(docker network inspect kind --format '{{range .IPAM.Config}}{{println .Gateway}}{{end}}' | grep -m 1 -F . || true)

cat <<END

Next:
  export KUBECONFIG=$KUBECONFIG
  export MULTIKUEUE_WEBHOOK__ENABLED=true MULTIKUEUE_WEBHOOK__URL=https://${gateway:-ADDRESS}:9443
  export MULTIKUEUE_VISIBILITY__ENABLED=true
  kubectl --context kind-manager apply -f kind-configs/queues/manager.yaml
  for i in 1 2 3; do kubectl --context kind-worker-\$i apply -f kind-configs/queues/worker.yaml; done
  make run ARGS="--context kind-manager"
  kubectl --context kind-manager create -f kind-configs/queues/job.yaml

Once that manager is stopped, the manager cluster refuses new jobs and ends no namespace until one runs again, or until:
  .venv/bin/multikueue webhook remove --context kind-manager
  kubectl --context kind-manager delete apiservices -l app.kubernetes.io/managed-by=multikueue
END
