"""Collections: pages, versions, selectors."""

from __future__ import annotations

import pytest

from tests.contract.builders import config_map, job, pod, secret, unique, widget
from tests.contract.server import Answer, Object, Server
from tests.contract.space import Collection, Forgotten, Space, eventually

pytestmark = pytest.mark.anyio

NAMES = ["a", "b", "c", "d", "e"]
FUTURE = "999999999"


@pytest.fixture
async def five(maps: Collection) -> Collection:
    """Five ConfigMaps."""
    for name in NAMES:
        await maps.made(config_map(name))
    return maps


async def test_a_list_names_its_kind_and_version_once(five: Collection) -> None:
    listed = (await five.list()).good(200)
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert set(listed["metadata"]) == {"resourceVersion"}
    assert not {"kind", "apiVersion"} & set(listed["items"][0])


async def test_the_items_of_a_list_of_custom_objects_say_what_they_are(widgets: Collection) -> None:
    made = await widgets.made(widget("a"))
    listed = (await widgets.list()).good(200)
    assert (listed["kind"], listed["apiVersion"]) == ("WidgetList", "contract.multikueue.dev/v1")
    assert listed["items"] == [made]


async def test_a_list_is_in_order_of_names(maps: Collection) -> None:
    for name in ["b", "a.b", "a", "c", "a-b"]:
        await maps.made(config_map(name))
    assert await maps.names() == ["a", "a-b", "a.b", "b", "c"]


async def test_a_list_over_all_namespaces_has_them_in_order(server: Server, space: Space) -> None:
    label = unique("label")
    for namespace in (space.namespace, "default"):
        collection = Collection(server, f"/api/v1/namespaces/{namespace}/configmaps")
        await collection.made(config_map(label, {"of": label}))
    listed = (await Collection(server, "/api/v1/configmaps").list(labelSelector=f"of={label}")).good(200)
    assert [item["metadata"]["namespace"] for item in listed["items"]] == [space.namespace, "default"]


async def test_an_empty_list_has_no_items_but_a_version(maps: Collection) -> None:
    listed = (await maps.list()).good(200)
    assert listed["items"] == []
    assert int(listed["metadata"]["resourceVersion"]) > 0


async def test_the_version_of_a_list_covers_all_that_was_written(maps: Collection) -> None:
    made = await maps.made(config_map("a"))
    listed = (await maps.list()).good(200)
    assert int(listed["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


async def test_pages_give_everything_once(five: Collection) -> None:
    names, left, cont = [], [], ""
    while True:
        metadata, items = await page(five, limit="2", **({"continue": cont} if cont else {}))
        names += [item["metadata"]["name"] for item in items]
        left.append(metadata.get("remainingItemCount"))
        if not (cont := metadata.get("continue", "")):
            break
    assert names == NAMES
    assert left == [3, 1, None]


async def page(collection: Collection, **query: str) -> tuple[Object, list[Object]]:
    listed = (await collection.list(**query)).good(200)
    return listed["metadata"], listed["items"]


async def test_all_pages_are_of_the_time_of_the_first(five: Collection) -> None:
    first, _ = await page(five, limit="2")
    await five.delete("c")
    await five.made(config_map("dd"))
    (await five.patch("e", {"data": {"new": "yes"}})).good()
    rest, items = await page(five, **{"continue": first["continue"]})
    assert [item["metadata"]["name"] for item in items] == ["c", "d", "e"]
    assert "data" not in items[-1]
    assert rest["resourceVersion"] == first["resourceVersion"]


async def test_a_limit_that_suffices_needs_no_second_page(five: Collection) -> None:
    metadata, items = await page(five, limit="5")
    assert len(items) == 5
    assert not metadata.get("continue")


async def test_a_selector_holds_for_all_pages_and_nobody_counts_what_is_left(maps: Collection) -> None:
    for name in NAMES:
        await maps.made(config_map(name, {"vowel": str(name in "ae")}))
    first, items = await page(maps, limit="1", labelSelector="vowel=True")
    assert [item["metadata"]["name"] for item in items] == ["a"]
    assert "remainingItemCount" not in first
    _, items = await page(maps, labelSelector="vowel=True", **{"continue": first["continue"]})
    assert [item["metadata"]["name"] for item in items] == ["e"]


async def test_a_continuation_that_is_nonsense_is_refused(five: Collection) -> None:
    refusal = (await five.list(limit="1", **{"continue": "nonsense"})).refused(400, "BadRequest")
    assert refusal["message"].startswith("invalid continue token: ")


async def test_a_continuation_has_its_version_in_itself(five: Collection) -> None:
    first, _ = await page(five, limit="1")
    query = {"continue": first["continue"], "resourceVersion": first["resourceVersion"]}
    refusal = (await five.list(limit="1", **query)).refused(400, "BadRequest")
    assert refusal["message"] == "specifying resource version is not allowed when using continue"


async def test_a_continuation_of_a_forgotten_time_is_gone(forgotten: Forgotten) -> None:
    async def gone() -> Answer | None:
        answer = await forgotten.widgets.list(limit="1", **{"continue": forgotten.continuation})
        return answer if answer.status != 200 else None

    refusal = (await eventually(gone, within=40)).refused(410, "Expired")
    assert refusal["message"].startswith("The provided continue parameter is too old")
    # One may go on after the last name with what is there now.
    _, items = await page(forgotten.widgets, limit="9", **{"continue": refusal["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in items] == ["b", "c"]


@pytest.mark.parametrize("query", [{"limit": "x"}, {"timeoutSeconds": "x"}], ids=str)
async def test_a_number_that_is_none_is_refused(maps: Collection, query: dict[str, str]) -> None:
    refusal = (await maps.list(**query)).refused(400, "BadRequest")
    assert refusal["message"] == 'strconv.ParseInt: parsing "x": invalid syntax'


async def test_a_list_as_of_then_shows_what_was_then(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    then = await widgets.version()
    await widgets.made(widget("b"))
    await widgets.delete("a")
    listed = (await widgets.list(resourceVersion=then, resourceVersionMatch="Exact")).good(200)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
    assert listed["metadata"]["resourceVersion"] == then


async def test_a_list_not_older_than_then_shows_now(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    then = await widgets.version()
    made = await widgets.made(widget("b"))
    query = {"resourceVersion": made["metadata"]["resourceVersion"], "resourceVersionMatch": "NotOlderThan"}
    assert await widgets.names(**query) == ["a", "b"]
    assert "a" in await widgets.names(resourceVersion=then)
    assert "a" in await widgets.names(resourceVersion="0")


@pytest.mark.parametrize("match", ["NotOlderThan", ""])
async def test_a_list_from_the_future_takes_too_long(widgets: Collection, match: str) -> None:
    query = {"resourceVersion": FUTURE} | ({"resourceVersionMatch": match} if match else {})
    answer = await widgets.list(**query)
    refusal = answer.refused(504, "Timeout")
    assert refusal["message"].startswith(f"Timeout: Too large resource version: {FUTURE}, current: ")
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    assert refusal["details"] == {"causes": [cause], "retryAfterSeconds": 1}
    assert answer.headers["Retry-After"] == "1"


REFUSED_QUERIES: dict[str, dict[str, str]] = {
    "resourceVersionMatch is forbidden unless resourceVersion is provided": {"resourceVersionMatch": "Exact"},
    'resourceVersionMatch "exact" is forbidden for resourceVersion "0"': {
        "resourceVersion": "0",
        "resourceVersionMatch": "Exact",
    },
    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided": {
        "watch": "true",
        "resourceVersion": "1",
        "resourceVersionMatch": "NotOlderThan",
    },
    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan": {
        "watch": "true",
        "sendInitialEvents": "true",
    },
}


@pytest.mark.parametrize("message", REFUSED_QUERIES)
async def test_a_query_that_contradicts_itself_is_refused(maps: Collection, message: str) -> None:
    refusal = (await maps.list(**REFUSED_QUERIES[message])).refused(422, "Invalid")
    assert refusal["message"] == f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: {message}'


async def test_a_version_that_is_no_number_cannot_be_asked_for(maps: Collection) -> None:
    (await maps.list(resourceVersion="abc")).refused(400, "BadRequest")


# --- label selectors -------------------------------------------------------------------------------------------------

LABELS = {"a": {"app": "web", "tier": "1"}, "b": {"app": "web", "tier": "2"}, "c": {"app": "db"}, "d": {}}

SELECTED = {
    "": "abcd",
    "app=web": "ab",
    "app==web": "ab",
    "app!=web": "cd",
    "app": "abc",
    "!app": "d",
    "app=web,tier=2": "b",
    "app in (web, db)": "abc",
    "tier in (2)": "b",
    "app notin (web)": "cd",
    "app notin (web),app": "c",
    "tier>1": "b",
    "tier<2": "a",
    "app=": "",
    "missing=x": "",
}


@pytest.fixture
async def labelled(maps: Collection) -> Collection:
    for name, labels in LABELS.items():
        await maps.made(config_map(name, labels))
    return maps


@pytest.mark.parametrize("selector", SELECTED)
async def test_labels_select(labelled: Collection, selector: str) -> None:
    assert await labelled.names(labelSelector=selector) == list(SELECTED[selector])


@pytest.mark.parametrize("selector", ["a in b", "=x", "a=b=c", "a,,b", "app in ()x", "UP_/x/y=1"])
async def test_a_label_selector_that_is_none_is_refused(maps: Collection, selector: str) -> None:
    (await maps.list(labelSelector=selector)).refused(400, "BadRequest")


async def test_labels_select_in_every_collection(space: Space) -> None:
    bodies = {"widgets": widget("a"), "jobs": job("a")}
    for plural, body in bodies.items():
        collection: Collection = getattr(space, plural)
        body["metadata"]["labels"] = {"here": "yes"}
        await collection.made(body)
        assert await collection.names(labelSelector="here=yes") == ["a"]
        assert await collection.names(labelSelector="here=no") == []


# --- field selectors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=b", ["b"]),
        ("metadata.name==b", ["b"]),
        ("metadata.name!=b", ["a", "c", "d", "e"]),
        ("metadata.name!=b,metadata.name!=c", ["a", "d", "e"]),
        ("metadata.name=nothing", []),
        ("metadata.namespace=elsewhere", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_fields_select(five: Collection, selector: str, names: list[str]) -> None:
    assert await five.names(fieldSelector=selector) == names


async def test_fields_and_labels_select_together(labelled: Collection) -> None:
    assert await labelled.names(fieldSelector="metadata.name!=a", labelSelector="app=web") == ["b"]


async def test_the_declared_fields_of_a_custom_kind_select(widgets: Collection) -> None:
    await widgets.made(widget("a", size=1))
    await widgets.made(widget("b", size=2, mode="Slow"))
    await widgets.made(widget("c", size=2))
    assert await widgets.names(fieldSelector="spec.size=2") == ["b", "c"]
    assert await widgets.names(fieldSelector="spec.size=2,spec.mode!=Slow") == ["c"]


async def test_other_fields_of_a_custom_kind_do_not(widgets: Collection) -> None:
    refusal = (await widgets.list(fieldSelector="spec.title=x")).refused(400, "BadRequest")
    assert refusal["message"] == "field label not supported: spec.title"


async def test_unknown_fields_of_a_built_in_kind_do_not(maps: Collection) -> None:
    refusal = (await maps.list(fieldSelector="spec.x=y")).refused(400, "BadRequest")
    assert refusal["message"] == ('"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"')


async def test_pods_select_by_phase_and_node(space: Space) -> None:
    pods = space.core("pods")
    await pods.made(pod("a"))
    await pods.made(pod("b", nodeName="node-1"))
    assert await pods.names(fieldSelector="status.phase=Pending") == ["a", "b"]
    assert await pods.names(fieldSelector="status.phase=Running") == []
    assert await pods.names(fieldSelector="spec.nodeName=node-1") == ["b"]


async def test_secrets_select_by_type(space: Space) -> None:
    secrets = space.core("secrets")
    await secrets.made(secret("a"))
    await secrets.made(secret("b", type="example.com/other"))
    assert await secrets.names(fieldSelector="type=Opaque") == ["a"]


async def test_jobs_select_by_success(jobs: Collection) -> None:
    await jobs.made(job("a"))
    assert await jobs.names(fieldSelector="status.successful=0") == ["a"]


async def test_events_select_by_what_they_are_about(space: Space) -> None:
    events = space.core("events")
    for name in "ab":
        about = {"kind": "Job", "namespace": space.namespace, "name": name}
        await events.made({"metadata": {"name": name}, "involvedObject": about, "type": "Normal", "reason": "Tested"})
    assert await events.names(fieldSelector="involvedObject.name=b,involvedObject.kind=Job") == ["b"]
    assert await events.names(fieldSelector="reason=Tested,type=Normal") == ["a", "b"]


async def test_one_object_can_be_listed_by_its_name(space: Space) -> None:
    """This is how a single lease is watched."""
    leases = space.of("coordination.k8s.io/v1", "leases")
    for name in "ab":
        await leases.made({"metadata": {"name": name}, "spec": {"holderIdentity": name}})
    assert await leases.names(fieldSelector="metadata.name=b") == ["b"]
