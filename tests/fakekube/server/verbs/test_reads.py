"""Objects and lists: versions, pages, selectors."""

from __future__ import annotations

import pytest

from tests.fakekube.builders import MAPS, PODS, TOYS, Bench, config_map, pod_spec, toy


@pytest.fixture
def five(bench: Bench) -> Bench:
    for name in "abcde":
        bench.make(MAPS, config_map(name, labels={"vowel": "yes" if name in "ae" else "no"}))
    return bench


def test_who_is_not_there_is_not_found(bench: Bench) -> None:
    refusal = bench.refused(404, "GET", f"{MAPS}/a")
    assert refusal["message"] == 'configmaps "a" not found'
    assert refusal["details"] == {"name": "a", "kind": "configmaps"}


def test_a_list_says_of_what_it_is(five: Bench) -> None:
    answer = five.get(MAPS)
    assert (answer["kind"], answer["apiVersion"]) == ("ConfigMapList", "v1")
    assert answer["metadata"] == {"resourceVersion": str(five.storage.rv)}
    assert "kind" not in answer["items"][0], "items of built-in kinds leave that out"


def test_items_of_custom_kinds_say_what_they_are(bench: Bench) -> None:
    bench.define()
    bench.make(TOYS, toy("a"))
    answer = bench.get(TOYS)
    assert answer["metadata"]["continue"] == ""
    assert (answer["items"][0]["kind"], answer["items"][0]["apiVersion"]) == ("Toy", "example.com/v1")


def test_pages_are_of_one_moment(five: Bench) -> None:
    first = five.done("GET", MAPS, limit="2")
    assert first["metadata"]["remainingItemCount"] == 3
    five.done("DELETE", f"{MAPS}/c")
    five.make(MAPS, config_map("cc"))
    five.patch(f"{MAPS}/d", {"data": {"key": "late"}})
    token = first["metadata"]["continue"]
    second = five.done("GET", MAPS, **{"limit": "2", "continue": token})
    third = five.done("GET", MAPS, **{"limit": "2", "continue": second["metadata"]["continue"]})
    pages = [[item["metadata"]["name"] for item in page["items"]] for page in (first, second, third)]
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert second["items"][1]["data"] == {"key": "value"}
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {
        first["metadata"]["resourceVersion"]
    }
    assert "continue" not in third["metadata"]


def test_pages_over_all_namespaces_go_on_in_the_next(five: Bench) -> None:
    five.namespace("u")
    five.make("/api/v1/namespaces/u/configmaps", config_map("z"))
    first = five.done("GET", "/api/v1/configmaps", limit="5")
    rest = five.done("GET", "/api/v1/configmaps", **{"limit": "5", "continue": first["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["z"]


def test_a_selection_does_not_count_what_remains(five: Bench) -> None:
    answer = five.done("GET", MAPS, limit="1", labelSelector="vowel=yes")
    assert "remainingItemCount" not in answer["metadata"]
    rest = five.done("GET", MAPS, **{"labelSelector": "vowel=yes", "continue": answer["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["e"]


def test_a_token_gets_old_and_offers_to_go_on(five: Bench) -> None:
    token = five.done("GET", MAPS, limit="2")["metadata"]["continue"]
    five.done("DELETE", f"{MAPS}/d")
    five.storage.compact()
    refusal = five.refused(410, "GET", MAPS, **{"continue": token})
    assert refusal["reason"] == "Expired"
    rest = five.done("GET", MAPS, **{"continue": refusal["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "e"]


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        (
            {"continue": "x"},
            400,
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0",
        ),
        (
            {"continue": "e30"},
            400,
            "invalid continue token: continue key is not valid: server does not recognize this encoded version ",
        ),
        ({"limit": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        (
            {"resourceVersion": "abc"},
            400,
            'invalid resource version: resourceVersion: Invalid value: "abc": '
            'strconv.ParseUint: parsing "abc": invalid syntax',
        ),
        (
            {"fieldSelector": "spec.size=1"},
            400,
            '"spec.size" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            {"resourceVersionMatch": "Exact"},
            422,
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
    ],
)
def test_questions_that_make_no_sense(five: Bench, query: dict[str, str], code: int, message: str) -> None:
    assert five.refused(code, "GET", MAPS, **query)["message"] == message


def test_a_token_and_a_version_do_not_go_together(five: Bench) -> None:
    token = five.done("GET", MAPS, limit="2")["metadata"]["continue"]
    five.refused(400, "GET", MAPS, **{"continue": token, "resourceVersion": "5"})


@pytest.mark.parametrize("path", [MAPS, f"{MAPS}/a"])
def test_a_version_that_was_never_reached(five: Bench, path: str) -> None:
    answer = five.refused(504, "GET", path, resourceVersion="9999")
    assert answer["message"] == f"Timeout: Too large resource version: 9999, current: {five.storage.rv}"
    assert answer["details"] == {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }


def test_a_list_of_exactly_a_version(five: Bench) -> None:
    then = str(five.storage.rv)
    five.done("DELETE", f"{MAPS}/a")
    names = five.names(MAPS, resourceVersion=then, resourceVersionMatch="Exact")
    assert names == list("abcde")
    assert five.names(MAPS, resourceVersion=then, resourceVersionMatch="NotOlderThan") == list("bcde")
    assert five.names(MAPS, resourceVersion=then, limit="9") == list("abcde"), "a limit means that version"
    five.storage.compact()
    five.refused(410, "GET", MAPS, resourceVersion=then, resourceVersionMatch="Exact")


def test_whatever_version_comes_whole(five: Bench) -> None:
    assert five.names(MAPS, resourceVersion="0", limit="2") == list("abcde")


def test_labels_and_fields_choose(five: Bench) -> None:
    assert five.names(MAPS, labelSelector="vowel in (yes)") == ["a", "e"]
    assert five.names(MAPS, fieldSelector="metadata.name=b") == ["b"]
    assert five.names("/api/v1/configmaps", fieldSelector="metadata.namespace=t,metadata.name!=b") == list("acde")


def test_kinds_have_fields_of_their_own(bench: Bench) -> None:
    bench.make(PODS, {"metadata": {"name": "a"}, "spec": pod_spec(nodeName="n")})
    bench.make(PODS, {"metadata": {"name": "b"}, "spec": pod_spec()})
    assert bench.names(PODS, fieldSelector="spec.nodeName=n") == ["a"]
    assert bench.names(PODS, fieldSelector="spec.nodeName=,status.phase=Pending") == ["b"]
    assert bench.refused(400, "GET", PODS, fieldSelector="x=y")["message"] == "field label not supported: x"


def test_custom_kinds_declare_theirs(bench: Bench) -> None:
    bench.define()
    bench.make(TOYS, toy("a"))
    bench.make(TOYS, toy("b", spec={"color": "blue"}))
    assert bench.names(TOYS, fieldSelector="spec.color=blue") == ["b"]
    assert (
        bench.refused(400, "GET", TOYS, fieldSelector="spec.size=1")["message"]
        == "field label not supported: spec.size"
    )


def test_answers_have_other_forms(five: Bench) -> None:
    as_ = "application/json;as={};v=v1;g=meta.k8s.io,application/json"
    table = five.done("GET", MAPS, accept=as_.format("Table"), labelSelector="vowel=yes")
    assert [row["cells"][0] for row in table["rows"]] == ["a", "e"]
    partial = five.done("GET", f"{MAPS}/a", accept=as_.format("PartialObjectMetadata"))
    assert (partial["kind"], "data" in partial) == ("PartialObjectMetadata", False)
    five.refused(406, "GET", MAPS, accept="text/xml")


def test_answers_may_be_yaml(five: Bench) -> None:
    answer = five.ask("GET", f"{MAPS}/a", accept="application/yaml")
    assert b"\ndata:\n  key: value\n" in b"\n" + answer.body  # type: ignore[union-attr]
    assert b"&id" not in answer.body  # type: ignore[union-attr]
