"""What the query says."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.model.wire import Refused, Request
from fakekube.server.requests.options import (
    DeleteOptions,
    ListOptions,
    WriteOptions,
    delete_options,
    is_true,
    list_options,
    resource_version,
    write_options,
)


def asked(body: bytes = b"", content_type: str = "application/json", **query: str) -> Request:
    return Request(method="POST", path="/", query=query, body=body, content_type=content_type)


@pytest.mark.parametrize(("text", "truth"), [("true", True), ("1", True), ("", True), ("false", False), ("0", False)])
def test_truth_as_go_reads_it(text: str, truth: bool) -> None:
    assert is_true(text) == truth
    assert not is_true(None)


@pytest.mark.parametrize(("text", "version"), [("", 0), ("0", 0), ("17", 17)])
def test_versions_are_numbers(text: str, version: int) -> None:
    assert resource_version(text) == version


@pytest.mark.parametrize("text", ["x", "-1", "1.0", "²"])
def test_a_version_that_is_none_is_an_error_of_the_server(text: str) -> None:
    with pytest.raises(Refused) as refused:
        resource_version(text)
    assert (refused.value.code, refused.value.reason) == (500, "")


def test_options_of_writes() -> None:
    assert write_options(asked(), "CreateOptions") == WriteOptions()
    request = asked(content_type="application/apply-patch+yaml", dryRun="All", fieldManager="me", force="true")
    assert write_options(request, "PatchOptions") == WriteOptions(dry_run=True, manager="me", force=True)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"dryRun": "Some"}, 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        ({"fieldManager": "x" * 129}, "fieldManager: Too long: may not be more than 128 bytes"),
        (
            {"fieldManager": "a\x01"},
            'fieldManager: Invalid value: "a\\x01": invalid character U+0001 (at position 1)',
        ),
        (
            {"fieldValidation": "Loose"},
            'fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", "Strict", "Warn"',
        ),
        ({"force": "true"}, "force: Forbidden: may not be specified for non-apply patch"),
    ],
)
def test_options_of_writes_that_are_none(query: dict[str, str], message: str) -> None:
    with pytest.raises(Refused) as refused:
        write_options(Request(method="PATCH", path="/", query=query), "PatchOptions")
    assert refused.value.message == f'PatchOptions.meta.k8s.io "" is invalid: {message}'


@pytest.mark.parametrize(
    ("request_", "options"),
    [
        (asked(), DeleteOptions()),
        (asked(b"{}"), DeleteOptions()),
        (asked(propagationPolicy="Orphan", gracePeriodSeconds="5"), DeleteOptions(policy="Orphan", grace=5)),
        (asked(orphanDependents="true"), DeleteOptions(policy="Orphan")),
        (asked(b'{"orphanDependents": false}'), DeleteOptions(policy="Background")),
        (
            asked(b'{"preconditions": {"uid": "u", "resourceVersion": "5"}, "dryRun": ["All"]}'),
            DeleteOptions(dry_run=True, uid="u", resource_version="5"),
        ),
    ],
)
def test_options_of_deletions(request_: Request, options: DeleteOptions) -> None:
    assert delete_options(request_) == options


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (asked(propagationPolicy="Slow"), 422),
        (asked(b'{"orphanDependents": true, "propagationPolicy": "Orphan"}'), 422),
        (asked(b'{"dryRun": ["Some"]}'), 422),
        (asked(b'{"kind": "Pod"}'), 400),
        (asked(b'{"gracePeriodSeconds": "soon"}'), 400),
        (asked(gracePeriodSeconds="soon"), 400),
        (asked(b"{"), 400),
    ],
)
def test_options_of_deletions_that_are_none(request_: Request, code: int) -> None:
    with pytest.raises(Refused) as refused:
        delete_options(request_)
    assert refused.value.code == code


def test_options_of_lists() -> None:
    query = {"labelSelector": "a=b", "limit": "-1", "timeoutSeconds": "7", "allowWatchBookmarks": "true"}
    assert list_options(query, watch=True) == ListOptions(labels="a=b", timeout=7, bookmarks=True)
    assert list_options({}, watch=False) == ListOptions()


@pytest.mark.parametrize(
    ("query", "watch", "count"),
    [
        ({"resourceVersionMatch": "Exact"}, False, 1),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, False, 1),
        ({"resourceVersionMatch": "Near", "resourceVersion": "5"}, False, 1),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "5", "continue": "x"}, False, 1),
        ({"sendInitialEvents": "true"}, False, 1),
        ({"sendInitialEvents": "true"}, True, 1),
        ({"resourceVersionMatch": "NotOlderThan"}, True, 1),
        ({"resourceVersionMatch": "Exact"}, True, 2),
        ({"continue": "x"}, True, 1),
    ],
)
def test_options_of_lists_that_make_no_sense(query: dict[str, str], watch: Any, count: int) -> None:
    with pytest.raises(Refused) as refused:
        list_options(query, watch=watch)
    assert (refused.value.code, len(refused.value.causes)) == (422, count)
