"""The examples of kubectl's own page, and what a path does not find."""

from __future__ import annotations

import pytest

from multikueue.cli.terminal.jsonpath import path, render, text

TREE = {
    "kind": "List",
    "items": [
        {"kind": "None", "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1"}}},
        {"kind": "None", "metadata": {"name": "127.0.0.2"}, "status": {"ready": True, "cpu": 4}},
    ],
    "users": [{"name": "myself", "user": {}}, {"name": "e2e", "user": {"username": "admin", "password": "secret"}}],
}

FOUND = {
    "a field": (".kind", "List"),
    "braces around it": ("{.kind}", "List"),
    "no dot before it": ("kind", "List"),
    "a name in brackets": ("['kind']", "List"),
    "all names below a name": ("..name", "127.0.0.1 127.0.0.2 myself e2e"),
    "all items": (".items[*].metadata.name", "127.0.0.1 127.0.0.2"),
    "the first": (".users[0].name", "myself"),
    "the last": (".users[-1].name", "e2e"),
    "a slice": (".items[0:1].metadata.name", "127.0.0.1"),
    "a union": (".items[0]['metadata.name', kind]", "None"),
    "a condition": ('.users[?(@.name=="e2e")].user.password', "secret"),
    "a condition of numbers": (".items[?(@.status.cpu>3)].metadata.name", "127.0.0.2"),
    "what has a field": (".items[?(@.status)].metadata.name", "127.0.0.2"),
    "a dot in a name": (r".items[0].metadata.labels.kubernetes\.io/hostname", "127.0.0.1"),
    "what is deeper, as JSON": (".items[1].status", '{"ready":true,"cpu":4}'),
    "what is not there": (".nothing.at[3].all", ""),
}


@pytest.mark.parametrize(("written", "expected"), FOUND.values(), ids=FOUND.keys())
def test_paths(written: str, expected: str) -> None:
    assert text(path(written).find(TREE)) == expected


RENDERED = {
    "a path alone": (".kind", "List"),
    "text around it": ("kind is {.kind}", "kind is List"),
    "a range": (r"{range .items[*]}[{.metadata.name}, {.status.cpu}] {end}", "[127.0.0.1, ] [127.0.0.2, 4] "),
    "quoted text": (r'{.kind}{"\n"}{' + "'{x}'" + "}", "List\n{x}"),
    "a range in a range": (r"{range .users[*]}{range .user.*}<{@}>{end};{end}", ";<admin><secret>;"),
}


@pytest.mark.parametrize(("template", "expected"), RENDERED.values(), ids=RENDERED.keys())
def test_templates(template: str, expected: str) -> None:
    assert render(template, TREE) == expected


@pytest.mark.parametrize("written", [".a[", "[]", "{range .items[*]}{.x}", "{.a", "{.a[?(}"])
def test_what_is_no_path_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"expected|brace|range"):
        render(written if "{" in written else f"{{{written}}}", TREE)
