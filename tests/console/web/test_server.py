"""The console's server over HTTP, two people of two namespaces, and a laptop's one: one file, as they share an office."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.errors import Forbidden, NotFound
from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.kube.auth.tokens import FixedToken
from multikueue.kube.client import Client
from multikueue.runtime import SystemClock
from multikueue_console.commands.acts import ACTIONS
from multikueue_console.history.outlook import Forecast
from multikueue_console.history.runs import Run, RunNews
from multikueue_console.history.store import RunHistory
from multikueue_console.watch.fleet_watch import FleetWatch, scope_of
from multikueue_console.web import server as module
from multikueue_console.web import sessions
from multikueue_console.web.rights import OpenAccess, Person, ReviewedAccess, Visible
from multikueue_console.web.server import Connect, ConsoleServer, Options
from multikueue_simulator.serving.serve import USERS, Plan, Sandbox
from tests.project.files import objects, read

pytestmark = pytest.mark.anyio

Tree = dict[str, Any]
RBAC = "rbac.authorization.k8s.io/v1"
KUEUE = "kueue.x-k8s.io/v1beta2"
PEOPLE = {"alice": "team-a", "bob": "team-b"}


def workload(name: str, namespace: str, queue: str) -> Tree:
    containers = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": containers, "restartPolicy": "Never"}}}]
    return {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"queueName": queue, "podSets": sets},
    }


@dataclass(slots=True)
class Office:
    """The cluster, its console for many people, and what people come with."""

    admin: Client
    watch: FleetWatch
    server: ConsoleServer
    access: ReviewedAccess
    connect: Connect
    tokens: dict[str, str]
    url: str
    web: aiohttp.ClientSession

    def as_(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[who]}"}

    async def get(self, path: str, who: str = "", **headers: str) -> tuple[int, Any]:
        mine = self.as_(who) if who else {}
        async with self.web.get(self.url + path, headers={**mine, **headers}, allow_redirects=False) as answer:
            body = await answer.read()
            return answer.status, json.loads(body) if answer.content_type == "application/json" else body.decode()

    async def events(self, who: str, *, until: str, **headers: str) -> list[tuple[str, Any]]:
        """The events of a new stream, up to the first one of that name."""
        found: list[tuple[str, Any]] = []
        async with self.web.get(f"{self.url}/api/stream", headers={**self.as_(who), **headers}) as answer:
            assert answer.status == 200
            name = ""
            with anyio.fail_after(10):
                async for raw in answer.content:
                    field, _, value = raw.decode().rstrip("\n").partition(": ")
                    if field == "event":
                        name = value
                    elif field == "data":
                        found.append((name, json.loads(value)))
                        if name == until:
                            return found
        return found


async def may_list(admin: Client, user: str, namespace: str) -> None:
    role = {
        "apiVersion": RBAC,
        "kind": "Role",
        "metadata": {"name": "look", "namespace": namespace},
        "rules": [
            {
                "apiGroups": ["kueue.x-k8s.io"],
                "resources": ["workloads", "localqueues"],
                "verbs": ["get", "list", "watch"],
            }
        ],
    }
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "look", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "look"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    for plural, body in (("roles", role), ("rolebindings", binding)):
        path = f"/apis/{RBAC}/namespaces/{namespace}/{plural}"
        await admin.request("POST", path, body=body)


async def may_list_clusters(admin: Client, user: str) -> None:
    rule = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["multikueueclusters"], "verbs": ["get", "list"]}
    role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "look"}, "rules": [rule]}
    binding = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "look"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "look"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        await admin.request("POST", f"/apis/{RBAC}/{plural}", body=body)


@pytest.fixture(name="office")
async def _office(tmp_path: Path) -> AsyncIterator[Office]:
    plan = Plan(workers=0, rbac=True, users={**USERS, **dict.fromkeys(PEOPLE, ())})
    async with Sandbox(plan, folder=tmp_path) as sandbox, anyio.create_task_group() as tasks:
        site = sandbox["manager"]
        credentials = {user: await from_kubeconfig(site.kubeconfig(user)) for user in ("admin", *PEOPLE)}
        tokens = {
            user: (await each.token()).authorization.removeprefix("Bearer ") for user, each in credentials.items()
        }
        async with Client.connect(credentials["admin"]) as admin, aiohttp.ClientSession() as web:
            for user, namespace in PEOPLE.items():
                await admin.create(
                    kinds.NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                )
                await may_list(admin, user, namespace)
                await admin.create(kinds.WORKLOADS, namespace, workload(f"of-{user}", namespace, "main"))
            clock = SystemClock()
            watch, access = (
                FleetWatch(admin, await scope_of(admin, [], "default"), clock),
                ReviewedAccess(admin, clock.monotonic),
            )

            @asynccontextmanager
            async def connect(person: Person) -> AsyncIterator[Client]:
                own = replace(
                    credentials["admin"], token=FixedToken(f"Bearer {person.token}"), certificate=b"", key=b""
                )
                async with Client.connect(own) as client:
                    yield client

            server = ConsoleServer(watch, access, connect, clock, Options())
            await tasks.start(watch.run)
            async with server.serving() as url:
                yield Office(admin, watch, server, access, connect, tokens, url, web)
            tasks.cancel_scope.cancel()


def names(events: list[tuple[str, Any]]) -> set[str]:
    """The workloads in all rows."""
    return {row[2] for name, rows in events if name == "rows" for row in rows}


async def test_two_people_see_their_own_and_an_administrator_sees_all(office: Office) -> None:
    seen = {who: names(await office.events(who, until="whole")) for who in ("alice", "bob", "admin")}

    assert seen == {"alice": {"of-alice"}, "bob": {"of-bob"}, "admin": {"of-alice", "of-bob"}}


async def test_a_picture_has_counts_of_what_one_may_see(office: Office) -> None:
    with anyio.fail_after(10):
        while not office.watch.tallies["team-a"].stuck:  # rows are computed again once the queues are seen
            await office.watch.changed.wait()
    told = dict(await office.events("alice", until="fleet"))["fleet"]

    assert told["states"] == {"Pending": 1}
    assert {problem["namespace"] for problem in told["problems"]} == {"team-a"}


async def test_guessed_addresses_tell_nothing(office: Office) -> None:
    uid = next(row.uid for row in office.watch.feed if row.namespace == "team-b")
    theirs = [
        await office.get(f"/api/workloads/team-b/{name}{part}", "alice")
        for name in ("of-bob", "of-nobody")
        for part in ("", "/object", "/pods", "/events", "/log?pod=x")
    ]

    assert {status for status, _ in theirs} == {404}
    assert [told["error"].replace("nobody", "bob") for _, told in theirs[:5]] == [
        told["error"].replace("nobody", "bob") for _, told in theirs[5:]
    ]
    assert await office.get(f"/api/places?uids={uid}", "alice") == (200, {})


async def test_ones_own_workload_has_a_story_and_an_object(office: Office) -> None:
    status, story = await office.get("/api/workloads/team-a/of-alice", "alice")
    assert (status, story["row"]["workload"], story["answer"]["state"]) == (200, "of-alice", "Pending")

    status, tree = await office.get("/api/workloads/team-a/of-alice/object", "alice")
    assert (status, tree["metadata"]["name"]) == (200, "of-alice")


async def test_what_an_api_tells_that_is_not_installed_is_told_in_plain_words(office: Office) -> None:
    for part in ("pods", "events"):
        status, told = await office.get(f"/api/workloads/team-a/of-alice/{part}", "admin")
        assert status == 502
        assert "visibility API, which is not installed" in told["error"]


async def test_a_line_tells_of_others_only_that_they_are_there(office: Office) -> None:
    for namespace in PEOPLE.values():
        queue = {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": "main", "namespace": namespace}}
        await office.admin.create(kinds.LOCAL_QUEUES, namespace, {**queue, "spec": {"clusterQueue": "shared"}})
    with anyio.fail_after(10):
        while True:
            _, line = await office.get("/api/queues/shared/line", "alice")
            if line["length"] == 2:
                break
            await anyio.sleep(0.1)

    assert line["length"] == 2
    assert sorted(len(item) for item in line["items"]) == [1, 2]


async def test_without_a_session_there_is_nothing(office: Office) -> None:
    assert (await office.get("/api/stream"))[0] == 401
    assert (await office.get("/"))[0] == 401
    assert (await office.get("/api/stream", Authorization="Bearer guessed"))[0] == 401
    assert (await office.get("/healthz"))[0] == 200
    assert (await office.get("/assets/index.html", "alice"))[0] == 404


async def test_a_stream_of_another_site_is_refused_though_the_cookie_comes_along(office: Office) -> None:
    there = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}

    assert (await office.get("/api/stream", "alice", **there))[0] == 403
    assert (await office.get("/api/stream", "alice", Host="evil.example"))[0] == 403


async def test_a_change_comes_by_the_stream_and_a_reader_resumes(office: Office) -> None:
    first = await office.events("alice", until="whole")
    await office.admin.create(kinds.WORKLOADS, "team-b", workload("more", "team-b", "main"))
    await office.admin.create(kinds.WORKLOADS, "team-a", workload("more", "team-a", "main"))
    with anyio.fail_after(10):
        while len(office.watch.feed) < 4:
            await office.watch.changed.wait()
    seen = names(await office.events("alice", until="whole"))

    assert names(first) == {"of-alice"}
    assert seen == {"of-alice", "more"}


async def test_a_right_that_is_taken_away_ends_what_is_seen(office: Office) -> None:
    assert names(await office.events("alice", until="whole")) == {"of-alice"}
    await office.admin.request("DELETE", f"/apis/{RBAC}/namespaces/team-a/rolebindings/look")
    office.access.forget()

    assert names(await office.events("alice", until="whole")) == set()
    assert (await office.get("/api/workloads/team-a/of-alice", "alice"))[0] == 404


@pytest.mark.parametrize("pages", [1, 50])
async def test_more_open_pages_ask_the_cluster_for_nothing_more(
    office: Office, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    """All live on one watch, and on one look at the rights of a person every few seconds."""
    monkeypatch.setattr(module, "MOST_STREAMS", pages)
    asked, start = list[str](), Client._start
    live, seen = ([anyio.Event() for _ in range(pages)] for _ in range(2))

    def counted(self: Client, request: Any, *args: Any, **more: Any) -> Any:
        asked.append(f"{request.method} {request.target}")
        return start(self, request, *args, **more)

    async def page(number: int) -> None:
        async with office.web.get(f"{office.url}/api/stream", headers=office.as_("alice")) as answer:
            name = ""
            async for raw in answer.content:
                field, _, value = raw.decode().rstrip("\n").partition(": ")
                name = value if field == "event" else name
                if field == "data" and name == "whole":
                    live[number].set()
                if field == "data" and name == "rows" and "more" in {row[2] for row in json.loads(value)}:
                    seen[number].set()
                    return

    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(20):
            for number in range(pages):
                tasks.start_soon(page, number)
            for each in live:
                await each.wait()
            monkeypatch.setattr(Client, "_start", counted)
            await office.admin.create(kinds.WORKLOADS, "team-a", workload("more", "team-a", "main"))
            for each in seen:
                await each.wait()
    reviews = [each for each in asked if "reviews" in each]
    assert len(asked) - len(reviews) == 1, "the workload itself"
    assert len(reviews) <= 4


async def test_streams_are_bounded(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ALL_STREAMS", 0)

    assert (await office.get("/api/stream", "alice"))[0] == 429


async def test_pages_that_were_left_do_not_count_as_open(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STREAMS", 2)

    for _ in range(4):
        assert names(await office.events("alice", until="whole")) == {"of-alice"}
        await anyio.sleep(0.05)


async def test_tokens_are_guessed_at_the_rate_of_strangers(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "RATE", 0.0)
    office.server.strangers.spend(0.0)
    office.server.strangers.left = 2.0
    told = [(await office.get("/api/places", Authorization=f"Bearer guess-{number}"))[0] for number in range(4)]

    assert 429 in told
    assert 200 not in told


async def test_a_token_opens_a_session_with_a_cookie_that_no_script_and_no_other_site_gets(office: Office) -> None:
    form, own = {"token": office.tokens["alice"]}, {"Origin": office.url}
    async with office.web.post(f"{office.url}/login", data=form, headers=own, allow_redirects=False) as answer:
        cookie = answer.headers["Set-Cookie"]
        assert answer.status == 303
    assert {"HttpOnly", "Secure", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}

    status, page = await office.get("/", Cookie=cookie.partition(";")[0])
    assert (status, "app.js" in page) == (200, True)
    async with office.web.post(f"{office.url}/login", data={"token": "guessed"}, headers=own) as answer:
        assert answer.status == 401


@asynccontextmanager
async def remembering(office: Office, folder: Path) -> AsyncIterator[str]:
    """The address of a console with a history, in which each person had a CPU for two hours, until an hour ago."""
    history, ended = RunHistory.open(f"sqlite:///{folder / 'history.db'}"), SystemClock().now() - timedelta(hours=1)
    began = ended - timedelta(hours=2)
    for user, namespace in PEOPLE.items():
        run = Run(
            workload=user,
            attempt="1",
            namespace=namespace,
            name="train",
            queue="main",
            user=user,
            cluster="oslo",
            cpu=1.0,
            queued_at=began - timedelta(minutes=5),
            reserved_at=began,
            started_at=began,
            ended_at=ended,
            outcome="succeeded",
        )
        history.record([RunNews(workload=user, run=run)], ended)
    server = ConsoleServer(office.watch, office.access, office.connect, SystemClock(), Options(), history=history)
    async with server.serving() as url:
        yield url
    history.close()


async def test_use_before_now_is_told_of_namespaces_that_one_may_see(office: Office, tmp_path: Path) -> None:
    async def used(who: str, by: str) -> dict[str, tuple[float, float, int]]:
        async with office.web.get(f"{url}/api/use?by={by}&days=2", headers=office.as_(who)) as answer:
            assert answer.status == 200
            items = (await answer.json())["items"]
        return {each["name"]: (each["cpu_hours"], each["wait_mean"], each["ended"]) for each in items}

    async with remembering(office, tmp_path) as url:
        assert await used("alice", "user") == {"alice": (2.0, 300.0, 1)}
        assert await used("bob", "queue") == {"team-b/main": (2.0, 300.0, 1)}
        assert await used("admin", "cluster") == {"oslo": (4.0, 300.0, 2)}
        hours = [*await used("admin", "hour")]
        assert hours == sorted(hours, reverse=True), "the last hour first"
        assert len(hours) >= 2
        await office.admin.request("DELETE", f"/apis/{RBAC}/namespaces/team-a/rolebindings/look")
        office.access.forget()
        assert await used("alice", "user") == {}


@pytest.mark.parametrize("query", ["by=name", "days=0", "days=4000"], ids=["no such group", "no time", "too long"])
async def test_use_is_asked_for_in_bounds(office: Office, tmp_path: Path, query: str) -> None:
    asked = f"/api/use?{query}"
    async with remembering(office, tmp_path) as url, office.web.get(url + asked, headers=office.as_("alice")) as answer:
        assert answer.status == 400


async def test_without_a_history_the_console_says_how_to_get_one(office: Office) -> None:
    status, told = await office.get("/api/use", "alice")

    assert (status, "--history" in told["error"]) == (404, True)
    assert dict(await office.events("alice", until="hello"))["hello"]["history"] is False


async def test_when_it_starts_is_told_of_workloads_that_one_may_see(office: Office) -> None:
    soon, mine = SystemClock().now(), ObjectKey("team-a", "of-alice")
    told: dict[ObjectKey, Forecast | None] = {mine: Forecast(soon, soon, soon), ObjectKey("team-b", "of-bob"): None}
    server = ConsoleServer(office.watch, office.access, office.connect, SystemClock(), Options(), starts=lambda: told)
    uids = {row.namespace: row.uid for row in office.watch.feed}

    async def asked(path: str, who: str) -> Any:
        async with office.web.get(f"{url}{path}", headers=office.as_(who)) as answer:
            return await answer.json()

    async with server.serving() as url:
        places = f"/api/places?uids={','.join(uids.values())}"
        at = int(soon.timestamp())
        assert await asked(places, "alice") == {uids["team-a"]: {"place": 0, "starts": [at, at]}}
        assert await asked(places, "bob") == {uids["team-b"]: {"place": 0, "starts": None}}
        assert (await asked("/api/workloads/team-a/of-alice", "alice"))["starts"] == [at, at]
        told.clear()
        assert "starts" not in await asked("/api/workloads/team-a/of-alice", "alice")


async def act(office: Office, url: str, who: str, path: str, word: str = "", **headers: str) -> int:
    mine = {**office.as_(who), "Origin": url, **headers}
    async with office.web.post(f"{url}{path}", headers=mine, data={"word": word} if word else None) as answer:
        return answer.status


@asynccontextmanager
async def acting(office: Office) -> AsyncIterator[str]:
    """The address of a console with actions."""
    options = Options(actions=ACTIONS)
    async with ConsoleServer(office.watch, office.access, office.connect, SystemClock(), options).serving() as url:
        yield url


async def test_nothing_is_changed_unless_actions_are_switched_on(office: Office) -> None:
    assert await act(office, office.url, "admin", "/api/workloads/team-a/of-alice/hold") == 404


async def test_an_action_is_done_with_the_rights_of_who_asks(office: Office) -> None:
    hold, key = "/api/workloads/team-a/of-alice/hold", ObjectKey("team-a", "of-alice")
    async with acting(office) as url:
        assert await act(office, url, "alice", hold) == 403  # she may list workloads, and change none
        assert await act(office, url, "bob", hold) == 404
        assert await act(office, url, "admin", hold, Origin="http://evil.example") == 403
        assert b'"active":false' not in bytes((await office.admin.get(kinds.WORKLOADS, key)).spec).replace(b" ", b"")
        assert await act(office, url, "admin", hold) == 200
        assert b'"active":false' in bytes((await office.admin.get(kinds.WORKLOADS, key)).spec).replace(b" ", b"")
        assert await act(office, url, "admin", "/api/clusters/nowhere/cordon") == 404


async def test_before_an_action_its_effect_is_told_in_the_words_of_the_command(office: Office) -> None:
    async def effect(url: str, who: str, path: str) -> tuple[int, str]:
        async with office.web.get(f"{url}/api/{path}/effect", headers=office.as_(who)) as answer:
            told = await answer.json()
            return answer.status, told.get("effect", told.get("error", ""))

    mine = "workloads/team-a/of-alice"
    oslo: Tree = {"apiVersion": KUEUE, "kind": "MultiKueueCluster", "metadata": {"name": "oslo"}}
    source = {"kubeConfig": {"location": "oslo", "locationType": "Secret"}}
    await office.admin.create(kinds.MULTIKUEUE_CLUSTERS, "", {**oslo, "spec": {"clusterSource": source}})
    with anyio.fail_after(10):
        while ObjectKey("", "oslo") not in (office.watch.seen.clusters or {}):
            await office.watch.changed.wait()
    async with acting(office) as url:
        told = {name: (await effect(url, "admin", f"{mine}/{name}"))[1] for name in ACTIONS if name[0] in "hrpc"}
        held = "until `multikueue workloads release`."
        assert told["hold"] == f"Keeps team-a/of-alice waiting {held}"
        assert told["requeue"] == "Queues team-a/of-alice again."
        assert told["release"] == "There is nothing to do any more."
        assert told["cancel"] == "Deletes workload/of-alice in namespace team-a."
        assert told["priority"] == "Changes the priority class of workload/of-alice."
        stops = "stops what runs there and queues it again: nothing"
        refusals = {await effect(url, "alice", f"clusters/{name}/drain") for name in ("oslo", "nowhere")}
        assert {(status, text.replace("oslo", "nowhere")) for status, text in refusals} == {
            (404, "there is no cluster nowhere that you may see")
        }, "she may not list them, and learns no names"
        assert await effect(url, "admin", "clusters/oslo/drain") == (200, f"Cordons oslo, and {stops}.")
        assert await effect(url, "admin", "clusters/oslo/uncordon") == (200, "Uncordons oslo.")
        await may_list_clusters(office.admin, "bob")
        office.access.forget()
        assert (await effect(url, "bob", "clusters/oslo/drain"))[0] == 403  # who may not list all that runs there
        assert (await effect(url, "bob", f"{mine}/cancel"))[0] == 404
    assert (await effect(office.url, "admin", f"{mine}/hold"))[0] == 404, "actions are switched off"


async def test_a_workload_is_cancelled_by_those_who_may_delete_it(office: Office) -> None:
    cancel = "/api/workloads/team-a/of-alice/cancel"
    async with acting(office) as url:
        assert await act(office, url, "alice", cancel) == 403
        assert await act(office, url, "bob", cancel) == 404
        assert await act(office, url, "admin", cancel) == 200
    with pytest.raises(NotFound):
        await office.admin.get(kinds.WORKLOADS, ObjectKey("team-a", "of-alice"))


async def test_what_cannot_be_done_now_is_refused_as_the_command_refuses_it(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multikueue.cli.workload.activation.GIVE_BACK_TIMEOUT", timedelta(milliseconds=100))
    mine = "/api/workloads/team-a/of-alice"
    async with acting(office) as url:
        assert await act(office, url, "admin", f"{mine}/requeue") == 409  # no manager runs
        assert await act(office, url, "admin", f"{mine}/priority", "high") == 409  # it has no job
        assert await act(office, url, "admin", f"{mine}/priority") == 400
        assert await act(office, url, "admin", f"{mine}/hold", "high") == 400
        assert await act(office, url, "admin", f"{mine}/drain") == 404


async def test_a_priority_is_the_class_that_the_job_names(office: Office) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "team-a"}}
    job = await office.admin.create(kinds.JOBS, "team-a", {**body, "spec": {"template": template, "suspend": True}})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job.metadata.uid, "controller": True}
    made = workload("job-train", "team-a", "main")
    made["metadata"]["ownerReferences"] = [owner]
    await office.admin.create(kinds.WORKLOADS, "team-a", made)
    urgent: Tree = {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    await office.admin.create(kinds.WORKLOAD_PRIORITY_CLASSES, "", urgent)
    with anyio.fail_after(10):
        while len(office.watch.feed) < 3:
            await office.watch.changed.wait()
    priority = "/api/workloads/team-a/job-train/priority"
    async with acting(office) as url:
        assert await act(office, url, "admin", priority, "urgnet") == 409
        assert await act(office, url, "alice", priority, "urgent") == 403
        assert await act(office, url, "admin", priority, "urgent") == 200
    found = await office.admin.get(kinds.JOBS, ObjectKey("team-a", "train"))
    assert found.metadata.labels["kueue.x-k8s.io/priority-class"] == "urgent"


async def test_a_cluster_is_drained_by_those_who_see_all_workloads(office: Office) -> None:
    key = ObjectKey("", "oslo")
    oslo: Tree = {"apiVersion": KUEUE, "kind": "MultiKueueCluster", "metadata": {"name": "oslo"}}
    source = {"kubeConfig": {"location": "oslo", "locationType": "Secret"}}
    await office.admin.create(kinds.MULTIKUEUE_CLUSTERS, "", {**oslo, "spec": {"clusterSource": source}})
    with anyio.fail_after(10):
        while key not in (office.watch.seen.clusters or {}):
            await office.watch.changed.wait()
    async with acting(office) as url:
        assert await act(office, url, "alice", "/api/clusters/oslo/drain") == 404
        await may_list_clusters(office.admin, "bob")
        office.access.forget()
        assert await act(office, url, "bob", "/api/clusters/oslo/drain") == 403
        assert (await office.admin.get(kinds.MULTIKUEUE_CLUSTERS, key)).metadata.annotations == {}
        assert await act(office, url, "admin", "/api/clusters/oslo/drain") == 200
    drained = await office.admin.get(kinds.MULTIKUEUE_CLUSTERS, key)
    assert drained.metadata.annotations == {"multikueue.dev/cordon": "true"}


async def test_on_a_laptop_a_link_opens_once(office: Office) -> None:
    @asynccontextmanager
    async def connect(_person: Person) -> AsyncIterator[Client]:
        yield office.admin

    server = ConsoleServer(office.watch, OpenAccess(), connect, SystemClock(), Options())
    async with server.serving() as url:
        link = f"{url}/login?ticket={server.sessions.ticket()}"
        async with office.web.get(link, allow_redirects=False) as first, office.web.get(link) as second:
            assert (first.status, second.status) == (303, 401)


async def test_who_may_see_one_namespace_watches_that_one(office: Office, tmp_path: Path) -> None:
    async with Client.connect(await from_kubeconfig(tmp_path / "manager" / "alice.kubeconfig")) as alice:
        assert await scope_of(alice, [], "team-a") == ("team-a",)
        with pytest.raises(Forbidden):
            await scope_of(alice, [], "team-b")
        watch = FleetWatch(alice, ("team-a",), SystemClock())
        async with anyio.create_task_group() as tasks:
            await tasks.start(watch.run)
            tasks.cancel_scope.cancel()

    assert [row.workload for row in watch.feed] == ["of-alice"]
    assert watch.seen.cluster_queues is None
    assert watch.story(ObjectKey("team-a", "of-alice")) is not None


async def test_the_account_of_the_deployment_may_do_what_the_console_does_and_no_more(tmp_path: Path) -> None:
    roles = [body for body in objects(read("deploy/components/console/rights.yaml")) if body["kind"] == "ClusterRole"]
    binding = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "multikueue-console"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "multikueue-console"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "console"}],
    }
    plan = Plan(workers=0, rbac=True, users={**USERS, "console": (), "alice": ()})
    async with Sandbox(plan, folder=tmp_path) as sandbox, anyio.create_task_group() as tasks:
        site, clock = sandbox["manager"], SystemClock()
        async with Client.connect(await from_kubeconfig(site.kubeconfig("admin"))) as admin:
            for plural, bodies in (("clusterroles", roles), ("clusterrolebindings", [binding])):
                for body in bodies:
                    await admin.request("POST", f"/apis/{RBAC}/{plural}", body=body)
        async with Client.connect(await from_kubeconfig(site.kubeconfig("console"))) as client:
            watch = FleetWatch(client, await scope_of(client, [], "default"), clock)
            await tasks.start(watch.run)
            access = ReviewedAccess(client, clock.monotonic)
            alice = await access.person(site.cluster.users.token("alice"))
            assert alice is not None
            assert await access.visible(alice, ["default"]) == Visible(frozenset(), frozenset())
            for kind in (kinds.RESOURCE_FLAVORS, kinds.NAMESPACES, kinds.JOBS):
                await client.list(kind)
            for refused in (kinds.SECRETS, kinds.PODS):
                with pytest.raises(Forbidden):
                    await client.list(refused)
            with anyio.fail_after(10):
                while None in (watch.seen.cluster_queues, watch.seen.clusters, watch.seen.configs, watch.seen.checks):
                    await watch.changed.wait()
            assert watch.scope == ("",)
            tasks.cancel_scope.cancel()
