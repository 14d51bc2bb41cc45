"""Whatever flags, environment and files say: settings, or a clear error; never anything else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multikueue.errors import ConfigurationError
from multikueue.settings import ENV_PREFIX, LEVEL, Settings, leaves, read

LEAVES = st.sampled_from(leaves())

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1h", "-1s", "1e999", "9" * 400, "PT1S", "a.b", "nan", "inf", "0x10", "jobs", "all-at-once"])
    | st.dates()
    | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
).map(json.dumps)

VARIABLE_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12) | JSON

HOSTILE_YAML = (
    "dispatch: &a {strategy: {options: {self: *a}}}",
    "dispatch: &a [*a]",
    "dispatch: 2001-99-99",
    "dispatch: !!python/object/apply:os.system [true]",
    "? [1, 2]\n: x",
    "{1: 2}",
    "{dispatch: {1: 2}}",
    "{dispatch: {null: 2}}",
    "dispatch: " + "[" * 2000,
    "dispatch: " + "{a: " * 300 + "1" + "}" * 300,
    "cluster: {namespace: " + "9" * 5000 + "}",
    "dispatch: {gc_interval: .inf}",
    "dispatch: {concurrency: [0x" + "f" * 6000 + "]}",
    "dispatch: {concurrency: 0x" + "f" * 6000 + "}",
    "0x" + "f" * 6000 + ": 1",
    "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration, 0x" + "f" * 6000 + ": 0x" + "f" * 6000 + "}",
    "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration, webhook: {port: 0x" + "f" * 6000 + "}}",
    "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration, health: {healthProbeBindAddress: 0x"
    + "f" * 6000
    + "}}",
    "dispatch: {gc_interval: .nan, concurrency: .inf}",
    "dispatch: {gc_interval: 1e300, concurrency: 1e300}",
    "dispatch: {worker_lost_timeout: 99999999999999999999h}",
    "dispatch: {concurrency: !!binary aGVsbG8=}",
    "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\ndispatch: {strategy: {name: [*c, *c]}}",
    "roles: {a: 1}",
    "roles: !!set {jobs, quota, dispatch}",
    "roles: [[jobs]]",
    "dispatch: {cluster_profile: {access_providers: [{name: a, exec: {command: b, nope: 1}}]}}",
    "dispatch: {cluster_profile: {access_providers: {name: a}}}",
    "\x00",
    "\ufeff",
    "---\na: 1\n---\nb: 2",
    "apiVersion: [1]\nkind: {a: b}",
    "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n1: 2\n? [a]\n: b",
    "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmultiKueue: &a {x: *a, clusterProfile: *a}",
)


def settle(path: Path | None, **flags: object) -> None:
    """Reads the sources: settings come of it, or an error of few and short lines that begin with their place."""
    try:
        found = read(path, **flags)
    except ConfigurationError as error:
        for line in str(error).splitlines():
            assert line.startswith(("flag ", "environment ", f"{path}: ")), line
            assert len(line) < 3000
    else:
        assert isinstance(found.settings, Settings)
        assert all(found.origin(leaf.path) for leaf in leaves())


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@st.composite
def trees(draw: st.DrawFn) -> dict[Any, Any]:
    """Files of ours: known settings with any values, any values for groups, and names nobody knows, at any depth."""
    tree: dict[Any, Any] = draw(st.dictionaries(st.text(max_size=5), ANYTHING, max_size=2))
    for leaf in draw(st.lists(LEAVES, max_size=5)):
        path = leaf.path[: draw(st.integers(1, len(leaf.path)))]
        here = tree
        for part in path[:-1]:
            if not isinstance(here.get(part), dict):
                here[part] = {}
            here = here[part]
        here[draw(st.sampled_from([path[-1], path[-1] + "x"]))] = draw(ANYTHING)
    return tree


@given(trees())
def test_a_file_with_anything_in_it(tmp_path_factory: pytest.TempPathFactory, tree: dict[Any, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "tree.yaml"
    path.write_text(yaml.safe_dump(tree))
    settle(path)


@given(st.binary(max_size=60))
def test_a_file_of_any_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.yaml"
    path.write_bytes(content)
    settle(path)


@pytest.mark.parametrize("text", HOSTILE_YAML, ids=lambda text: repr(text[:40]))
def test_a_file_that_means_harm(tmp_path: Path, text: str) -> None:
    path = tmp_path / "harm.yaml"
    path.write_text(text)
    settle(path)


def test_a_directory_and_a_device_are_no_files(tmp_path: Path) -> None:
    settle(tmp_path)
    settle(tmp_path / "a\0b")


@given(st.lists(st.tuples(LEAVES, st.integers(1, 4), VARIABLE_TEXT), min_size=1, max_size=4))
@example([(leaves()[4], 1, "5"), (leaves()[4], 2, "x")])
@settings(max_examples=200)
def test_variables_of_any_depth_with_any_text(given: list[tuple[Any, int, str]]) -> None:
    variables = {f"{ENV_PREFIX}{LEVEL.join(leaf.path[:depth]).upper()}": text for leaf, depth, text in given}
    with environment(variables):
        settle(None)


@pytest.mark.parametrize("text", ["\r", "\x1b[2J\n", "x" * 9000], ids=["no line", "control characters", "long"])
@pytest.mark.parametrize("form", ["{}", '["{}"]', '{{"{}": "{}"}}'], ids=["a text", "a list", "a mapping"])
def test_each_setting_with_text_that_fits_no_line(form: str, text: str) -> None:
    """A validator of its own must not put a value into its message as it is."""
    escaped = json.dumps(text)[1:-1]
    for leaf in leaves():
        variable = f"{ENV_PREFIX}{LEVEL.join(leaf.path).upper()}"
        with environment({variable: text if form == "{}" else form.format(escaped, escaped)}):
            settle(None)


@given(st.dictionaries(LEAVES.map(lambda leaf: LEVEL.join(leaf.path)), ANYTHING, max_size=3))
def test_flags_of_any_value(flags: dict[str, Any]) -> None:
    settle(None, **flags)
