"""The template of a replicated job in the runtime of a TrainJob, merged with the TrainJob's own fields.

Rules: as in `pod_sets`.
"""

from __future__ import annotations

from typing import Any

from multikueue.jobs.trees import paths
from multikueue.jobs.trees.strategic_merge import merged
from multikueue.jobs.trees.templates import part

__all__ = ["INITIALIZERS", "NODE", "TRAINER", "template_of"]

Tree = dict[str, Any]

TRAINER = "trainer"
"""The step of the replicated job that trains."""

NODE = "node"
"""The container that trains; if the MPI launcher is a node too, also the replicated job of the other nodes."""

INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}
"""The steps before training, each with the TrainJob's name for it."""


def template_of(each: Tree, spec: Tree, *, step: str, is_node: bool) -> Tree:
    """The template of a replicated job, merged with the TrainJob's spec. `is_node`: a node's resources in any step."""
    template = _overridden(paths.only(each, "template.spec.template"), str(each.get("name")), spec)
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


def _overridden(template: Tree, name: str, spec: Tree) -> Tree:
    """The template after all overrides for the replicated job of that name, in order."""
    for each in spec.get("podTemplateOverrides") or ():
        if any(target.get("name") == name for target in each.get("targetJobs") or ()):
            meta = {key: part(each, "metadata").get(key) for key in ("labels", "annotations")}
            given = {key: value for key, value in meta.items() if value}
            template = merged(template, {"metadata": given, "spec": part(each, "spec")})
    return template
