"""Admission webhooks: they are asked, they change, they refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.contract.builders import config_map, unique, widget
from tests.contract.hooks import Hooks, Verdict, patching, serving
from tests.contract.server import Answer, Object, Server
from tests.contract.space import Collection, Space, eventually

pytestmark = pytest.mark.anyio

MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"

MARK = {"op": "add", "path": "/metadata/labels", "value": {"marked": "yes"}}

Register = Callable[..., Awaitable[str]]


def allowing(_request: Object) -> Object:
    return {"allowed": True}


def refusing(_request: Object) -> Object:
    return {"allowed": False, "status": {"message": "not on my watch"}}


@pytest.fixture
async def hooks() -> AsyncIterator[Hooks]:
    async with serving() as started:
        yield started


@pytest.fixture
async def register(server: Server, space: Space, hooks: Hooks) -> AsyncIterator[Register]:
    """Registers a webhook for ConfigMaps and widgets of the test's namespace, and waits until it is asked."""
    made: list[Collection] = []

    async def registered(
        kind: str, verdict: Verdict, *, probe: bool = True, before: Object | None = None, **more: Any
    ) -> str:
        name = unique("hook")
        collection = Collection(server, f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s")
        entry = webhook(space, hooks, name, verdict, **more)
        others = [] if before is None else [{**entry, **before}]
        await collection.made({"metadata": {"name": name}, "webhooks": [*others, entry]})
        made.append(Collection(server, collection.item(name)))
        if probe:
            await eventually(lambda: _is_asked(space, hooks, name))
        hooks.asked[name].clear()
        return name

    yield registered
    for each in made:
        await server.call("DELETE", each.path)


def webhook(space: Space, hooks: Hooks, name: str, verdict: Verdict, **more: Any) -> Object:
    rule = {"apiGroups": ["", "contract.multikueue.dev"], "apiVersions": ["v1"], "resources": ["configmaps", "widgets"]}
    return {
        "name": f"{name}.multikueue.dev",
        "clientConfig": hooks.client_config(name, verdict),
        "rules": [{**rule, "operations": ["CREATE", "UPDATE", "DELETE"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


async def _is_asked(space: Space, hooks: Hooks, name: str) -> bool:
    await space.maps.create(config_map("probe", {"probe": "yes"}), dryRun="All")
    return bool(hooks.asked[name])


async def test_a_mutating_webhook_changes_what_is_created(maps: Collection, register: Register) -> None:
    await register(MUTATING, patching(MARK))
    assert (await maps.made(config_map("a")))["metadata"]["labels"] == {"marked": "yes"}


async def test_a_webhook_is_told_everything(maps: Collection, space: Space, hooks: Hooks, register: Register) -> None:
    name = await register(VALIDATING, allowing)
    await maps.made(config_map("a", key="value"))
    [request] = hooks.asked[name]
    assert request["operation"] == "CREATE"
    assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (request["name"], request["namespace"]) == ("a", space.namespace)
    assert request["userInfo"]["username"] == "admin"
    assert request["object"]["data"] == {"key": "value"}
    assert request["oldObject"] is None
    assert request["dryRun"] is False


async def test_a_webhook_sees_both_states_of_an_update(maps: Collection, hooks: Hooks, register: Register) -> None:
    await maps.made(config_map("a", key="old"))
    name = await register(VALIDATING, allowing)
    (await maps.patch("a", {"data": {"key": "new"}})).good()
    [request] = hooks.asked[name]
    assert request["operation"] == "UPDATE"
    assert (request["oldObject"]["data"], request["object"]["data"]) == ({"key": "old"}, {"key": "new"})


async def test_a_webhook_sees_what_is_deleted(maps: Collection, hooks: Hooks, register: Register) -> None:
    await maps.made(config_map("a", key="old"))
    name = await register(VALIDATING, allowing)
    (await maps.delete("a")).good()
    [request] = hooks.asked[name]
    assert request["operation"] == "DELETE"
    assert (request["object"], request["oldObject"]["data"]) == (None, {"key": "old"})


async def test_a_webhook_hears_of_a_dry_run(maps: Collection, hooks: Hooks, register: Register) -> None:
    name = await register(MUTATING, patching(MARK))
    made = (await maps.create(config_map("a"), dryRun="All")).good(201)
    assert made["metadata"]["labels"] == {"marked": "yes"}
    assert hooks.asked[name][0]["dryRun"] is True


@pytest.mark.parametrize("kind", [MUTATING, VALIDATING])
async def test_a_webhook_refuses(maps: Collection, register: Register, kind: str) -> None:
    name = await register(kind, refusing)
    refusal = (await maps.create(config_map("a"))).body
    assert refusal["code"] == 400
    assert refusal["message"] == f'admission webhook "{name}.multikueue.dev" denied the request: not on my watch'
    (await maps.get("a")).refused(404, "NotFound")


async def test_a_webhook_refuses_in_its_own_way(maps: Collection, register: Register) -> None:
    status = {"code": 422, "reason": "Invalid", "message": "no"}
    await register(VALIDATING, lambda _request: {"allowed": False, "status": status})
    refusal = (await maps.create(config_map("a"))).refused(422, "Invalid")
    assert refusal["message"].endswith(" denied the request: no")


async def test_validation_sees_what_mutation_made(maps: Collection, hooks: Hooks, register: Register) -> None:
    await register(MUTATING, patching(MARK))
    name = await register(VALIDATING, allowing)
    await maps.made(config_map("a"))
    assert hooks.asked[name][0]["object"]["metadata"]["labels"] == {"marked": "yes"}


async def test_what_a_webhook_made_is_validated(widgets: Collection, register: Register) -> None:
    await register(MUTATING, patching({"op": "replace", "path": "/spec/size", "value": 101}))
    (await widgets.create(widget("a"))).refused(422, "Invalid")


async def test_what_a_webhook_made_of_a_custom_object_gets_defaults(widgets: Collection, register: Register) -> None:
    await register(MUTATING, patching({"op": "replace", "path": "/spec/policy", "value": {}}))
    made = await widgets.made(widget("a", policy={"retries": 7}))
    assert made["spec"]["policy"] == {"retries": 3}


async def test_a_write_of_status_is_none_of_the_object(widgets: Collection, hooks: Hooks, register: Register) -> None:
    await widgets.made(widget("a"))
    name = await register(VALIDATING, refusing)
    (await widgets.patch("a", {"status": {"phase": "x"}}, "status")).good(200)
    assert hooks.asked[name] == []


async def test_a_webhook_is_asked_of_what_it_selects(maps: Collection, hooks: Hooks, register: Register) -> None:
    selector = {"matchExpressions": [{"key": "probe", "operator": "Exists"}]}
    name = await register(VALIDATING, refusing, objectSelector=selector)
    await maps.made(config_map("a"))
    assert hooks.asked[name] == []
    assert (await maps.create(config_map("b", {"probe": "x"}))).status == 400


async def test_a_webhook_is_asked_when_its_condition_holds(maps: Collection, hooks: Hooks, register: Register) -> None:
    condition = {"name": "probes", "expression": "object.metadata.name.startsWith('probe')"}
    name = await register(VALIDATING, refusing, matchConditions=[condition])
    await maps.made(config_map("a"))
    assert hooks.asked[name] == []


async def test_a_webhook_is_not_asked_elsewhere(server: Server, hooks: Hooks, register: Register) -> None:
    name = await register(VALIDATING, refusing)
    elsewhere = Collection(server, "/api/v1/namespaces/default/configmaps")
    await elsewhere.made(config_map(unique("other")))
    assert hooks.asked[name] == []


SILENT = {"name": "silent.multikueue.dev", "clientConfig": {"url": "https://127.0.0.1:1/nobody"}}


async def test_what_a_webhook_does_not_answer_is_refused(maps: Collection, register: Register) -> None:
    await register(VALIDATING, allowing, probe=False, before=SILENT | {"failurePolicy": "Fail"})

    async def failed() -> Answer | None:
        answer = await maps.create(config_map(unique("a")))
        return answer if answer.status >= 400 else None

    refusal = (await eventually(failed)).refused(500, "InternalError")
    assert refusal["message"].startswith(
        'Internal error occurred: failed calling webhook "silent.multikueue.dev": failed to call webhook: '
    )


async def test_what_a_webhook_does_not_answer_is_done_if_that_is_its_policy(
    maps: Collection, register: Register
) -> None:
    await register(VALIDATING, allowing, before=SILENT | {"failurePolicy": "Ignore"})
    (await maps.create(config_map("a"))).good(201)


async def test_a_configuration_is_filled_with_defaults(server: Server, space: Space, hooks: Hooks) -> None:
    collection = Collection(server, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations")
    name = unique("hook")
    made = await collection.made({"metadata": {"name": name}, "webhooks": [webhook(space, hooks, name, allowing)]})
    await collection.delete(name)
    [entry] = made["webhooks"]
    defaults = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10, "objectSelector": {}}
    assert {each: entry[each] for each in defaults} == defaults
    assert entry["rules"][0]["scope"] == "*"
    assert made["metadata"]["generation"] == 1


async def test_a_configuration_tells_what_it_may_do(server: Server, space: Space, hooks: Hooks) -> None:
    collection = Collection(server, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations")
    entry = webhook(space, hooks, "x", allowing)
    del entry["sideEffects"]
    answer = await collection.create({"metadata": {"name": unique("hook")}, "webhooks": [entry]})
    answer.refused(422, "Invalid")
