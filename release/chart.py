"""The Helm chart: the files of it that follow from the settings, and the archive.

`make docs` writes `values.schema.json` and `README.md` of deploy/chart. The templates read the same manifests as kustomize, by
way of links, so there is one text of each.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from multikueue.settings import describe
from release.archives import packed

__all__ = ["archive", "components", "readme", "schema"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
BY_SETTINGS = {"webhook", "visibility"}
"""Components that a setting of the same name switches on."""

TEXT, OBJECT = {"type": "string"}, {"type": "object"}

README = """\
# The chart of multikueue

```
helm install manager ./multikueue-VERSION.tgz --namespace kueue-system --create-namespace \\
  --set image.repository=REGISTRY/multikueue
kubectl label namespace kueue-system pod-security.kubernetes.io/enforce=restricted
```

It makes the objects of `deploy/`, which docs/deploy.md of the repository explains; a test compares them. The default values are
those of `overlays/standalone`. Two files are for the other overlays: `-f values-beside-kueue.yaml` and
`-f values-external-dispatcher.yaml`. The chart does not have Kueue's CRDs.

The names of objects are fixed, so there is one release in a cluster. In a namespace other than `kueue-system`, that one is
`cluster.namespace` of the settings. With one replica there is no PodDisruptionBudget. Of a clone, Helm says that it follows
links: to the manifests of `deploy/`.

## Values

`values.schema.json` has each setting with its meaning; Helm refuses what is not in it.

| Value | Default | Meaning |
|---|---|---|
"""


def own(names: list[str]) -> dict[str, Any]:
    """The schema of what is no setting. `names`: the components."""
    console = {
        "image": _object(_image()),
        "arguments": {
            "type": "array",
            "items": TEXT,
            "description": "More of them for `multikueue console`: `[--public-url=https://console.example.org]`.",
        },
        "storage": _object(
            {
                "size": TEXT | {"description": "Of the volume with the history."},
                "className": TEXT | {"description": "Its StorageClass; that of the cluster where it is empty."},
            }
        ),
    }
    return {
        "image": _object(_image()),
        "imagePullSecrets": {
            "type": "array",
            "items": OBJECT,
            "description": "Secrets to pull it with: `[{name: mine}]`.",
        },
        "replicas": {"type": "integer", "minimum": 1, "description": "How many run. One acts, the others are hot."},
        "resources": OBJECT
        | {"description": "Of the container. A limit of CPU may keep a leader from renewing its Lease."},
        "priorityClassName": TEXT
        | {"description": "The PriorityClass of its Pods. The component `priority-class` makes one."},
        "nodeSelector": OBJECT | {"description": "The nodes it may run on, by labels."},
        "tolerations": {"type": "array", "items": OBJECT, "description": "Taints it may run in spite of."},
        "affinity": OBJECT
        | {"description": "Where it runs, in the words of a Pod. Replicas are spread over nodes anyway."},
        "topologySpreadConstraints": {
            "type": "array",
            "items": OBJECT,
            "description": "How replicas are spread, in place of one to a node where that is possible.",
        },
        "components": {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": names},
            "description": f"Folders of `deploy/components`: {', '.join(f'`{name}`' for name in names)}.",
        },
        "monitoringLabels": OBJECT
        | {"description": "Labels of what `monitoring` makes, by which a Prometheus selects: `{release: mine}`."},
        "console": _object(console),
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with these values and no others."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _image() -> dict[str, Any]:
    return {
        "repository": TEXT | {"description": "The image's name, with its registry."},
        "tag": TEXT | {"description": "Its tag; the version of the chart where it is empty."},
        "digest": {
            "type": "string",
            "pattern": "^(sha256:[0-9a-f]{64})?$",
            "description": "Its digest, in place of a tag.",
        },
    }


def components(chart: Path) -> list[str]:
    """The components that no setting switches on."""
    return sorted({path.name for path in (chart / "manifests/components").iterdir()} - BY_SETTINGS)


def schema(chart: Path) -> dict[str, Any]:
    """The JSON Schema of values.yaml: that of the settings, and what is no setting. `global` is for charts that contain it."""
    settings = describe.schema()
    definitions = settings.pop("$defs")
    del settings["$schema"]
    properties = own(components(chart)) | {"global": OBJECT, "settings": settings}
    return {
        "$schema": DIALECT,
        "$defs": definitions,
        "title": "Values of multikueue",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def readme(chart: Path) -> str:
    """README.md of the chart: each value that is no setting with its default and meaning."""
    defaults = yaml.safe_load((chart / "values.yaml").read_text())
    rows = [
        f"| `{name}` | `{json.dumps(value)}` | {meaning} |"
        for name, value, meaning in _rows(own(components(chart)), defaults)
    ]
    chosen = f"| `settings` | `{json.dumps(defaults['settings'])}` | All settings, as docs/settings.md has them. |"
    return README + "\n".join([*rows, chosen]) + "\n"


def _rows(properties: dict[str, Any], defaults: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any, str]]:
    for name, part in properties.items():
        if "properties" in part:
            yield from _rows(part["properties"], defaults[name], f"{path}{name}.")
        else:
            yield f"{path}{name}", defaults[name], part["description"]


def archive(chart: Path, *, epoch: int) -> bytes:
    """The chart as Helm packs it, with files in place of links. All have the time `epoch`, in seconds."""
    ignored = {line for line in (chart / ".helmignore").read_text().splitlines() if not line.startswith("#")}
    found = (Path(folder, name) for folder, _, names in os.walk(chart, followlinks=True) for name in names)
    files = sorted(path for path in found if path.name not in ignored)
    first = chart / "Chart.yaml"
    ordered = [first, *(path for path in files if path != first)]
    return packed(((f"multikueue/{path.relative_to(chart)}", path) for path in ordered), epoch=epoch)


def main(path: str) -> None:
    """Write the files that follow from the settings again."""
    chart = Path(path)
    (chart / "values.schema.json").write_text(json.dumps(schema(chart), indent=1) + "\n")
    (chart / "README.md").write_text(readme(chart))


if __name__ == "__main__":
    main(*sys.argv[1:])
