"""What can stand in the way of a job, by stable codes: programs read these, people the sentences."""

from __future__ import annotations

from enum import Enum

__all__ = ["Code"]


class Code(Enum):
    """The value says what it means, for docs/why.md. A code keeps its meaning in all releases."""

    # What can never be.
    KindNotDispatched = "Objects of this kind are not dispatched."
    PartOfAnother = "Another object controls this one, and is what queues."
    NoQueueLabel = "The job names no LocalQueue."
    QueueNotFound = "The LocalQueue that it names does not exist."
    PriorityClassNotFound = "The priority class that it names does not exist."
    CannotBeDispatched = (
        "The job has to be created again, since a field that cannot be changed keeps it from being dispatched."
    )
    NoFlavorHasResource = "It asks for a resource that no flavor of the ClusterQueue has."
    MoreThanQueueHas = "It asks for more than the ClusterQueue could ever use."
    NoFlavorSuits = "Its pods do not suit any flavor of the ClusterQueue, by taints or node affinity."
    NoWorkerCanHold = "No worker could ever hold it."

    # What a person has to change.
    WorkloadRefused = "The API server of the manager cluster refuses its Workload."
    WorkloadNotMade = "The manager cannot make its Workload."
    NoManager = "No manager has looked at it yet."
    Held = "It is held: spec.active of its Workload is false."
    OutOfTime = "It ran for its maximum execution time, and is held since."
    GivenUp = "Kueue has given it up, and holds it."
    CannotBeQueued = "It cannot be queued as it is: what it needs cannot be counted, for example."
    AdmissionGated = "An admission gate keeps it from getting quota."
    LocalQueueStopped = "Its LocalQueue is stopped."
    ClusterQueueNotFound = "The ClusterQueue behind its LocalQueue does not exist."
    ClusterQueueStopped = "The ClusterQueue is stopped or not active."
    WorkerAway = "The worker that runs it does not answer."
    ImageNotPulled = "A worker cannot pull the image of a pod."
    ContainerNotCreated = (
        "A worker cannot create a container of a pod, for example since a ConfigMap or a Secret is missing."
    )
    ContainerCrashes = "A container of a pod ends again and again."
    PodNotScheduled = "No node of the worker takes a pod."
    LocalQueueMissingOnWorkers = "The workers do not have a LocalQueue of its namespace and name."
    QueueStoppedOnWorkers = "The LocalQueue or the ClusterQueue of the workers is stopped or not active."
    WorkersCordoned = "All workers that could take it are cordoned."
    WorkersAway = "No worker that could take it answers."
    NoWorkerTakesIt = "No worker takes it, each for a reason of its own."
    CheckNotReady = "An admission check of somebody else is not ready."

    # What passes by itself.
    QuotaTaken = "Other workloads have the quota that it needs."
    BehindHead = "The head of a StrictFIFO queue has to go first."
    BackOff = "It waits to be queued again after an eviction."
    Leaving = "It is stopped on its worker before it queues again."
    NextInLine = "It has not been looked at yet, and nothing is lacking."
    WaitsForQuota = "It waits for quota, and why was not seen."
    WaitsOnWorkers = "It waits for its place on workers."
    NotAskedYet = "It has quota, and no worker was asked yet."
    PodsStarting = "Its pods are not ready yet."
    Terminating = "It is being deleted."
