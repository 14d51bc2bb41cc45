"""The template of a replicated job in the runtime of a TrainJob, merged with the TrainJob's own fields.

Rules: as in `pod_sets`.
"""

from __future__ import annotations

from typing import Any

from multikueue.jobs.trees import paths
from multikueue.jobs.trees.strategic_merge import merged
from multikueue.jobs.trees.templates import part

__all__ = ["INITIALIZERS", "NODE", "PATCH_MANAGER", "TRAINER", "patched", "template_of"]

Tree = dict[str, Any]

TRAINER = "trainer"
"""The step of the replicated job that trains."""

NODE = "node"
"""The container that trains; if the MPI launcher is a node too, also the replicated job of the other nodes."""

PATCH_MANAGER = "kueue.x-k8s.io/manager"
"""The manager of the entry in `runtimePatches` that a Kueue adds and fills for its own cluster."""

INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}
"""The steps before training, each with the TrainJob's name for it."""


def template_of(each: Tree, spec: Tree, *, step: str, is_node: bool) -> Tree:
    """The template of a `patched` replicated job, merged with the TrainJob's trainer and initializer. `is_node`: a node's
    resources in any step."""
    template: Tree = paths.only(each, "template.spec.template")
    if step in INITIALIZERS:
        template = _with_container(template, step, part(part(spec, "initializer"), INITIALIZERS[step]), _initializer)
    if step == TRAINER:
        template = _with_container(template, NODE, part(spec, "trainer"), _command)
    if step == TRAINER or is_node:
        template = _with_container(template, NODE, part(spec, "trainer"), _resources)
    return template


def _with_container(template: Tree, name: str, said: Tree, change: Any) -> Tree:
    """The template with the TrainJob's changes to the container of that name, if there are any."""
    spec = part(template, "spec")
    containers = [change(each, said) if each.get("name") == name else each for each in spec.get("containers") or ()]
    return template | {"spec": spec | {"containers": containers}} if said and containers else template


def _command(container: Tree, trainer: Tree) -> Tree:
    return container | {key: trainer[key] for key in ("image", "command", "args") if trainer.get(key) is not None}


def _resources(container: Tree, trainer: Tree) -> Tree:
    given = part(trainer, "resourcesPerNode")
    wanted = {key: given[key] for key in ("limits", "requests") if given.get(key)}
    return container | ({"resources": wanted} if wanted else {}) | _env(container, trainer.get("env"))


def _initializer(container: Tree, said: Tree) -> Tree:
    uri = [{"name": "STORAGE_URI", "value": said["storageUri"]}] if said.get("storageUri") is not None else []
    secret = [{"secretRef": {"name": part(said, "secretRef").get("name")}}] if part(said, "secretRef") else []
    sources = {"envFrom": [*(container.get("envFrom") or ()), *secret]} if secret else {}
    return container | _env(container, [*uri, *(said.get("env") or ())]) | sources


def _env(container: Tree, more: list[Tree] | None) -> Tree:
    """The environment variables merged with `more`: each in the place of the one of its name, or at the end."""
    known = {each.get("name"): each for each in (*(container.get("env") or ()), *(more or ()))}
    return {"env": list(known.values())} if more else {}


def patched(each: Tree, spec: Tree) -> Tree:
    """The replicated job with what the TrainJob changes in its templates by name: `runtimePatches` since Trainer 2.2,
    `podTemplateOverrides` before, each in order. Kueue's own entry is not the user's: each cluster has its own."""
    name, template = each.get("name"), part(each, "template")
    for override in paths.found(spec, "podTemplateOverrides[*]"):
        if any(target == name for target in paths.found(override, "targetJobs[*].name")):
            template = merged(template, {"spec": {"template": _override(override)}})
    for patch in paths.found(spec, "runtimePatches[*]"):
        if paths.only(patch, "manager") != PATCH_MANAGER:
            for job in paths.found(patch, "trainingRuntimeSpec.template.spec.replicatedJobs[*]"):
                if paths.only(job, "name") == name:
                    template = merged(template, part(job, "template"))
    return each | {"template": template}


def _override(override: Tree) -> Tree:
    meta = {key: part(override, "metadata").get(key) for key in ("labels", "annotations")}
    return {"metadata": {key: value for key, value in meta.items() if value}, "spec": part(override, "spec")}
