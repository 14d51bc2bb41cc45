"""What no Pod may have as its labels and annotations.

The API server checks the templates of its own kinds. Those of a CustomResourceDefinition it takes as they are, and so do
Kueue's Workloads before 0.19.1 (kueue#13679): the pods would be refused one by one, on the worker, with quota held.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from multikueue.api.values.foreign import excerpt
from multikueue.jobs.trees.templates import part

__all__ = ["problems"]

Tree = dict[str, Any]

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_PREFIX = 253
_MOST_ANNOTATED = 256 * 1024
_LONGEST_TOLD = 80

_EXPECTED_KEY = "expected a key such as team or example.com/team, at most 63 characters after the slash"
_EXPECTED_VALUE = "expected at most 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends"


def problems(pod_set: Tree) -> Iterator[str]:
    """Each label and annotation in the template of a pod set that the API server refuses in a Pod, and why."""
    metadata, where = part(pod_set["template"], "metadata"), f"pods {pod_set['name']}: metadata"
    for key, value in part(metadata, "labels").items():
        if not _is_key(key):
            yield f"{where}.labels: {_EXPECTED_KEY}, got {excerpt(repr(key), _LONGEST_TOLD)}"
        elif not isinstance(value, str) or (value and _NAME.fullmatch(value) is None):
            yield f"{where}.labels[{key}]: {_EXPECTED_VALUE}, got {excerpt(repr(value), _LONGEST_TOLD)}"
    annotations = part(metadata, "annotations")
    for key, value in annotations.items():
        if not _is_key(key.lower()):
            yield f"{where}.annotations: {_EXPECTED_KEY}, got {excerpt(repr(key), _LONGEST_TOLD)}"
        elif not isinstance(value, str):
            yield f"{where}.annotations[{key}]: expected text, got {excerpt(repr(value), _LONGEST_TOLD)}"
    if sum(len(str(text).encode(errors="replace")) for pair in annotations.items() for text in pair) > _MOST_ANNOTATED:
        yield f"{where}.annotations: expected at most {_MOST_ANNOTATED // 1024} KiB in all"


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    is_prefix = not slash or (len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix) is not None)
    return is_prefix and _NAME.fullmatch(name) is not None
