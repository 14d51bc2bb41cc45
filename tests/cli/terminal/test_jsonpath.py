"""The examples of kubectl's own page, and what a path does not find."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.cli.terminal.jsonpath import DoesNotFit, path, render, text

TREE: dict[str, Any] = {
    "kind": "List",
    "items": [
        {"kind": "None", "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1"}}},
        {"kind": "None", "metadata": {"name": "127.0.0.2"}, "status": {"ready": True, "cpu": 4}},
    ],
    "users": [{"name": "myself", "user": {}}, {"name": "e2e", "user": {"username": "admin", "password": "secret"}}],
}

TWO_LEVELS = '{"name":"e2e","user":{"password":"secret","username":"admin"}} {"password":"secret","username":"admin"}'

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
    "a union of paths, in the order of its parts": (
        "{.items[*]['metadata.name','status.cpu','kind']}",
        "127.0.0.1 127.0.0.2 4 None None",
    ),
    "a union of indices": (".users[1,0].name", "e2e myself"),
    "a path in quotes": (".items[0]['metadata.name']", "127.0.0.1"),
    "every second": (".items[::2].metadata.name", "127.0.0.1"),
    "no item of a slice without length": (".users[1:1].name", ""),
    "all keys, by name": (".users[1].user.*", "secret admin"),
    "objects and lists, each before what is in it": (".users[1]..", TWO_LEVELS),
    "keys of an object, by name": (".users[1].user", '{"password":"secret","username":"admin"}'),
    "a comparison of two paths": (".items[?(@.kind==@.metadata.name)].kind", ""),
    "a condition": ('.users[?(@.name=="e2e")].user.password', "secret"),
    "a condition of numbers": (".items[?(@.status.cpu>3)].metadata.name", "127.0.0.2"),
    "what has a field": (".items[?(@.status)].metadata.name", "127.0.0.2"),
    "a dot in a name": (r".items[0].metadata.labels.kubernetes\.io/hostname", "127.0.0.1"),
    "what is deeper, as JSON": (".items[1].status", '{"cpu":4,"ready":true}'),
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
    "a range in a range": (r"{range .users[*]}{range .user.*}<{@}>{end};{end}", ";<secret><admin>;"),
}


@pytest.mark.parametrize(("template", "expected"), RENDERED.values(), ids=RENDERED.keys())
def test_templates(template: str, expected: str) -> None:
    assert render(template, TREE) == expected


@pytest.mark.parametrize(
    "written",
    [
        ".a[",
        "[]",
        "{range .items[*]}{.x}",
        "{.a}{end}",
        "{.a",
        "{.a[?(}",
        ".items[?(@.kind=~'N.*')]",
        ".items[?(@.kind==None)]",
        ".items[kind]",
        '.items["kind"]',
        ".items[::0]",
        ".a, .b",
    ],
)
def test_what_is_no_path_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"expected|brace|range"):
        render(written if "{" in written else f"{{{written}}}", TREE)


WRONG_FOR_IT = {
    "an index past the end": (".users[2].name", "array index out of bounds: index 2, length 2"),
    "an index before the beginning": (".users[-3]", "array index out of bounds: index -1, length 2"),
    "a slice past the end": (".users[0:3]", "array index out of bounds: index 2, length 2"),
    "a slice that goes backwards": (".users[1:0]", "out of bounds|greater than"),
    "an index of an object": (".items[0].metadata[0]", "expected a list"),
    "a filter of an object": (".items[0].metadata[?(@.name)]", "expected a list"),
    "a comparison of text and number": (".users[?(@.name>3)]", "compares myself with 3"),
    "a comparison of several": (".items[?(@..name=='x')]", "expected one value"),
}


@pytest.mark.parametrize(("written", "message"), WRONG_FOR_IT.values(), ids=WRONG_FOR_IT.keys())
def test_what_does_not_fit_the_object_is_refused(written: str, message: str) -> None:
    several = {**TREE, "items": [{**each, "deep": {"name": "x"}} for each in TREE["items"]]}
    with pytest.raises(DoesNotFit, match=message):
        path(written).find(several)
