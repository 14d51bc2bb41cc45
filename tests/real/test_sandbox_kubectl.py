"""The real kubectl prints of the sandbox what it prints of a real API server: one file, one pair of servers.

With `--server real` the same tests run on a real control plane, which shows that what they expect is right. What the
testbed is needed for is kubectl; without `--server real` no other program runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
import yaml

from multikueue_simulator.serving.serve import MANAGER, Plan, Sandbox
from testbed import programs
from testbed.bed import Testbed, unique
from testbed.client import eventually
from testbed.kubeconfig import dump
from tests.real.skipping import needs_programs

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(120), needs_programs("this is its own cluster")]

SPACES = re.compile(r" {2,}")
AGE = re.compile(r"\b\d+s\b")


class Printed(NamedTuple):
    """What kubectl said: lines with columns separated by two blanks, ages as AGE, its own namespace as NS."""

    out: str
    error: str
    code: int


@dataclass
class Kubectl:
    """kubectl in one namespace of one server."""

    program: Path
    config: Path
    home: Path
    namespace: str

    async def __call__(self, *words: str, stdin: Any = None, code: int | None = 0, editor: str = "") -> Printed:
        """Runs a command, which must end with the code, if one is given. `stdin` is sent as JSON."""
        text = "" if stdin is None else json.dumps(stdin)
        process = await self._start(*words, KUBE_EDITOR=editor)
        out, error = (each.decode() for each in await process.communicate(text.encode()))
        assert code in (None, process.returncode), f"{words}: {process.returncode}\n{out}{error}"
        return Printed(self._plain(out), self._plain(error), process.returncode or 0)

    async def lines(self, *words: str) -> AsyncIterator[str]:
        """The lines that a command prints as it prints them; it is ended with the loop."""
        process = await self._start(*words)
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                yield self._plain(line.decode())
        finally:
            process.kill()
            await process.wait()

    async def _start(self, *words: str, **environment: str) -> asyncio.subprocess.Process:
        options = ["--kubeconfig", str(self.config), "--cache-dir", str(self.home / "cache"), "-n", self.namespace]
        return await asyncio.create_subprocess_exec(
            str(self.program),
            *options,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "HOME": str(self.home), **environment},
        )

    def _plain(self, text: str) -> str:
        lines = (SPACES.sub("  ", AGE.sub("AGE", line)).rstrip() for line in text.splitlines())
        return "\n".join(lines).replace(self.namespace, "NS").strip()


class Place(NamedTuple):
    """A server: a kubeconfig for the administrator, and one for a user who may do nothing where roles are enforced."""

    admin: Path
    nobody: Path
    is_real: bool


@pytest.fixture(scope="module")
async def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    folder = tmp_path_factory.mktemp("kubectl")
    async with AsyncExitStack() as stack:
        if request.config.getoption("--server") == "real":
            bed = await stack.enter_async_context(Testbed.start(workers=0))
            for user in ("admin", "manager"):
                (folder / user).write_bytes(dump(bed.manager.kubeconfig(user)))
            yield Place(folder / "admin", folder / "manager", is_real=True)
        else:
            served = (await stack.enter_async_context(Sandbox(Plan(workers=0, rbac=True), folder=folder)))[MANAGER]
            yield Place(served.kubeconfig(), served.kubeconfig("manager"), is_real=False)


@pytest.fixture
async def kubectl(place: Place, tmp_path: Path) -> Kubectl:
    made = Kubectl(programs.find().kubectl, place.admin, tmp_path, unique("kubectl"))
    printed = await made("create", "namespace", made.namespace)
    assert printed.out == "namespace/NS created"
    return made


@pytest.fixture
def nobody(place: Place, kubectl: Kubectl) -> Kubectl:
    return Kubectl(kubectl.program, place.nobody, kubectl.home, kubectl.namespace)


@pytest.fixture
def only_sandbox(place: Place) -> None:
    if place.is_real:
        pytest.skip("the sandbox says something of its own here")


def job(name: str = "one", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"team": "red"}},
        "spec": {"completions": 3, "parallelism": 2, "template": template, **spec},
    }


def config_map(name: str = "cm", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def queue(name: str = "main", cluster_queue: str = "cq") -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",  # the version that needs no Kueue to convert it
        "kind": "LocalQueue",
        "metadata": {"name": name},
        "spec": {"clusterQueue": cluster_queue},
    }


async def test_get_of_jobs(kubectl: Kubectl) -> None:
    assert (await kubectl("get", "jobs")).error == "No resources found in NS namespace."
    await kubectl("apply", "-f", "-", stdin=job())
    assert (await kubectl("get", "jobs")).out == ("NAME  STATUS  COMPLETIONS  DURATION  AGE\none  Running  0/3  AGE")
    header, row = (await kubectl("get", "job", "one", "-o", "wide")).out.splitlines()
    assert header == "NAME  STATUS  COMPLETIONS  DURATION  AGE  CONTAINERS  IMAGES  SELECTOR"
    assert row.startswith("one  Running  0/3  AGE  main  busybox  batch.kubernetes.io/controller-uid=")
    assert (await kubectl("get", "job", "-o", "name")).out == "job.batch/one"
    assert (await kubectl("get", "job", "one", "-o", "jsonpath={.spec.completions}")).out == "3"
    assert (await kubectl("get", "job", "-l", "team=blue")).error == "No resources found in NS namespace."
    assert (await kubectl("get", "job", "--show-labels")).out.endswith("AGE  team=red")
    missing = await kubectl("get", "job", "two", code=1)
    assert missing.error == 'Error from server (NotFound): jobs.batch "two" not found'


async def test_get_of_several_kinds(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=config_map(a="1", b="2"))
    await kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    await kubectl("apply", "-f", "-", stdin=queue())
    assert (await kubectl("get", "cm,secret,localqueues.v1beta1.kueue.x-k8s.io")).out == (
        "NAME  DATA  AGE\nconfigmap/cm  2  AGE\n\n"
        "NAME  TYPE  DATA  AGE\nsecret/s  Opaque  1  AGE\n\n"
        "NAME  CLUSTERQUEUE  PENDING WORKLOADS  ADMITTED WORKLOADS\nlocalqueue.kueue.x-k8s.io/main  cq"
    )
    listed = (await kubectl("get", "cm", "-A")).out.splitlines()
    assert listed[0] == "NAMESPACE  NAME  DATA  AGE"
    assert "NS  cm  2  AGE" in listed
    assert (await kubectl("get", "nonsense", code=1)).error == (
        'error: the server doesn\'t have a resource type "nonsense"'
    )


async def test_get_with_a_watch(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=config_map(a="1"))
    seen: list[str] = []
    with anyio.fail_after(30):
        async for line in kubectl.lines("get", "configmaps", "-w"):
            seen.append(line)
            if len(seen) == 2:
                await kubectl("patch", "cm", "cm", "-p", '{"data":{"b":"2"}}')
            if len(seen) == 3:
                await kubectl("delete", "cm", "cm")
            if len(seen) == 4:
                break
    assert seen == ["NAME  DATA  AGE", "cm  1  AGE", "cm  2  AGE", "cm  2  AGE"]


async def test_describe(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=job())
    text = (await kubectl("describe", "job", "one")).out
    for line in (
        "Name:  one",
        "Namespace:  NS",
        "Labels:  team=red",
        "Parallelism:  2",
        "Completions:  3",
        "Completion Mode:  NonIndexed",
        "Suspend:  false",
        "Backoff Limit:  6",
        "Pods Statuses:  0 Active / 0 Succeeded / 0 Failed",
        "Events:  <none>",
    ):
        assert line in text.splitlines()
    await kubectl("apply", "-f", "-", stdin=queue())
    text = (await kubectl("describe", "localqueues.v1beta1.kueue.x-k8s.io", "main")).out
    assert "API Version:  kueue.x-k8s.io/v1beta1" in text
    assert "Cluster Queue:  cq" in text


@pytest.mark.parametrize("body", [job(), config_map(a="1"), queue()], ids=["a Job", "a ConfigMap", "a LocalQueue"])
async def test_apply_creates_configures_and_leaves_alone(kubectl: Kubectl, body: Mapping[str, Any]) -> None:
    name = {"Job": "job.batch/one", "ConfigMap": "configmap/cm", "LocalQueue": "localqueue.kueue.x-k8s.io/main"}
    for expected, metadata in (("created", {}), ("unchanged", {}), ("configured", {"labels": {"team": "blue"}})):
        changed = {**body, "metadata": {**body["metadata"], **metadata}}
        assert (await kubectl("apply", "-f", "-", stdin=changed)).out == f"{name[body['kind']]} {expected}"


async def test_apply_takes_away_what_is_not_in_the_file_any_more(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=config_map(a="1", b="2"))
    await kubectl("apply", "-f", "-", stdin=config_map(a="1"))
    assert (await kubectl("get", "cm", "cm", "-o", "jsonpath={.data}")).out == '{"a":"1"}'


async def test_apply_merges_lists_by_their_keys(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=job(suspend=True))
    body = job(suspend=True)
    body["spec"]["template"]["metadata"] = {"labels": {"x": "y"}}
    body["spec"]["template"]["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    await kubectl("apply", "-f", "-", stdin=body)
    labels = (await kubectl("get", "job", "one", "-o", "jsonpath={.spec.template.metadata.labels}")).out
    assert '"x":"y"' in labels
    assert "controller-uid" in labels
    tolerations = (await kubectl("get", "job", "one", "-o", "jsonpath={.spec.template.spec.tolerations}")).out
    assert tolerations == '[{"key":"gpu","operator":"Exists"}]'


async def test_apply_finds_mistakes(kubectl: Kubectl) -> None:
    printed = await kubectl("apply", "-f", "-", stdin=job(completionz=3), code=1)
    assert printed.error == (
        'Error from server (BadRequest): error when creating "STDIN": Job in version "v1" cannot be handled as a Job: '
        'strict decoding error: unknown field "spec.completionz"'
    )
    printed = await kubectl("apply", "--validate=warn", "-f", "-", stdin=job(completionz=3))
    assert printed.error == 'Warning: unknown field "spec.completionz"'
    printed = await kubectl("apply", "-f", "-", stdin=job("two", completions=-1), code=1)
    assert printed.error == (
        'The Job "two" is invalid: spec.completions: Invalid value: -1: must be greater than or equal to 0'
    )


async def test_apply_on_the_server(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert (await kubectl(*apply, stdin=config_map(a="1"))).out == "configmap/cm serverside-applied"
    await kubectl("patch", "cm", "cm", "-p", '{"data":{"a":"2"}}')
    printed = await kubectl(*apply, stdin=config_map(a="1"), code=1)
    assert printed.error.startswith(
        'error: Apply failed with 1 conflict: conflict with "kubectl-patch" using v1: .data.a\nPlease review the fields'
    )
    assert (await kubectl(*apply, "--force-conflicts", stdin=config_map(a="1"))).out == (
        "configmap/cm serverside-applied"
    )
    assert (await kubectl(*apply, stdin=config_map(b="1"))).out == "configmap/cm serverside-applied"
    assert (await kubectl("get", "cm", "cm", "-o", "jsonpath={.data}")).out == '{"b":"1"}'
    dry = await kubectl(*apply, "--dry-run=server", stdin=config_map("other", b="1"))
    assert dry.out == "configmap/other serverside-applied (server dry run)"
    assert (await kubectl("get", "cm", "other", code=1)).error.endswith("not found")


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("configmap cm --from-literal=a=b", "configmap/cm created"),
        ("secret generic s --from-literal=a=b", "secret/s created"),
        ("serviceaccount robot", "serviceaccount/robot created"),
        ("job one --image=busybox", "job.batch/one created"),
        ("cronjob c --image=busybox --schedule=@daily", "cronjob.batch/c created"),
        ("quota q --hard=cpu=1,pods=2", "resourcequota/q created"),
        ("role r --verb=get,list --resource=jobs.batch", "role.rbac.authorization.k8s.io/r created"),
        ("rolebinding b --role=r --user=anne", "rolebinding.rbac.authorization.k8s.io/b created"),
    ],
)
async def test_create_by_command(kubectl: Kubectl, words: str, printed: str) -> None:
    assert (await kubectl("create", *words.split())).out == printed
    again = await kubectl("create", *words.split(), code=1)
    assert again.error.endswith("already exists")


async def test_create_and_replace_of_files(kubectl: Kubectl) -> None:
    assert (await kubectl("create", "-f", "-", stdin=config_map(a="1"))).out == "configmap/cm created"
    assert (await kubectl("create", "-f", "-", stdin=config_map(a="1"), code=1)).error == (
        'Error from server (AlreadyExists): error when creating "STDIN": configmaps "cm" already exists'
    )
    assert (await kubectl("replace", "-f", "-", stdin=config_map(b="1"))).out == "configmap/cm replaced"
    assert (await kubectl("get", "cm", "cm", "-o", "jsonpath={.data}")).out == '{"b":"1"}'
    assert (await kubectl("replace", "-f", "-", stdin=config_map("no"), code=1)).error == (
        'Error from server (NotFound): error when replacing "STDIN": configmaps "no" not found'
    )


async def test_edit(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=config_map(a="before"))
    assert (await kubectl("edit", "cm", "cm", editor="sed -i s/before/after/")).out == "configmap/cm edited"
    assert (await kubectl("get", "cm", "cm", "-o", "jsonpath={.data.a}")).out == "after"
    assert (await kubectl("edit", "cm", "cm", editor="true")).error == "Edit cancelled, no changes made."


@pytest.mark.parametrize(
    ("kind", "patch", "expected"),
    [
        ("strategic", '{"spec":{"suspend":true}}', "true"),
        ("merge", '{"spec":{"suspend":true}}', "true"),
        ("json", '[{"op":"replace","path":"/spec/suspend","value":true}]', "true"),
    ],
)
async def test_patch_of_each_kind(kubectl: Kubectl, kind: str, patch: str, expected: str) -> None:
    await kubectl("apply", "-f", "-", stdin=job())
    assert (await kubectl("patch", "job", "one", "--type", kind, "-p", patch)).out == "job.batch/one patched"
    assert (await kubectl("patch", "job", "one", "--type", kind, "-p", patch)).out == (
        "job.batch/one patched (no change)"
    )
    assert (await kubectl("get", "job", "one", "-o", "jsonpath={.spec.suspend}")).out == expected


async def test_patch_of_what_cannot_be_patched_so(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=queue())
    name = "localqueues.v1beta1.kueue.x-k8s.io"
    printed = await kubectl("patch", name, "main", "--type=strategic", "-p", "{}", code=1)
    assert printed.error.splitlines()[-1] == (
        "error: application/strategic-merge-patch+json is not supported by kueue.x-k8s.io/v1beta1, Kind=LocalQueue: the "
        "body of the request was in an unknown format - accepted media types include: application/json-patch+json, "
        "application/merge-patch+json, application/apply-patch+yaml"
    )
    spec = '{"spec":{"stopPolicy":"Hold"}}'
    assert (await kubectl("patch", name, "main", "--type=merge", "-p", spec)).out == (
        "localqueue.kueue.x-k8s.io/main patched"
    )


async def test_label_and_annotate(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=config_map())
    assert (await kubectl("label", "cm", "cm", "a=b")).out == "configmap/cm labeled"
    assert (await kubectl("label", "cm", "cm", "a=c", code=1)).error == (
        "error: 'a' already has a value (b), and --overwrite is false"
    )
    assert (await kubectl("label", "cm", "cm", "a-")).out == "configmap/cm unlabeled"
    assert (await kubectl("annotate", "cm", "cm", "a=b")).out == "configmap/cm annotated"
    printed = await kubectl("label", "cm", "cm", "a=b c", code=1)
    assert "a valid label must be an empty string or consist of alphanumeric characters" in printed.error


async def test_delete_waits_for_finalizers_unless_told_not_to(kubectl: Kubectl) -> None:
    body = config_map()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await kubectl("apply", "-f", "-", stdin=body)
    gone = 'configmap "cm" deleted from NS namespace'
    assert (await kubectl("delete", "cm", "cm", "--wait=false")).out == gone
    printed = await kubectl("delete", "cm", "cm", "--timeout=3s", code=1)
    assert printed.error.endswith("timed out waiting for the condition on configmaps/cm")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: kubectl("delete", "cm", "cm", "--ignore-not-found"))
        await kubectl("patch", "cm", "cm", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert (await kubectl("delete", "cm", "cm", code=1)).error == (
        'Error from server (NotFound): configmaps "cm" not found'
    )
    assert (await kubectl("delete", "cm", "cm", "--ignore-not-found")).out == ""


async def test_delete_of_all_that_match(kubectl: Kubectl) -> None:
    for name in ("a", "b"):
        await kubectl("create", "cm", name)
        await kubectl("label", "cm", name, "x=y")
    printed = await kubectl("delete", "cm", "-l", "x=y")
    assert printed.out == 'configmap "a" deleted from NS namespace\nconfigmap "b" deleted from NS namespace'


async def test_wait(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=job())
    printed = await kubectl("wait", "--for=condition=Complete", "job/one", "--timeout=3s", code=1)
    assert printed.error == "error: timed out waiting for the condition on jobs/one"
    ready = '{"status":{"conditions":[{"type":"Suspended","status":"True"}]}}'
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_is_met, kubectl)
        await kubectl("patch", "job", "one", "--subresource=status", "--type=merge", "-p", ready)
    assert (await kubectl("wait", "--for=jsonpath={.spec.completions}=3", "job/one")).out == (
        "job.batch/one condition met"
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: kubectl("wait", "--for=delete", "job/one", "--timeout=30s"))
        await kubectl("delete", "job", "one", "--cascade=background")


async def _is_met(kubectl: Kubectl) -> None:
    printed = await kubectl("wait", "--for=condition=Suspended", "job/one", "--timeout=30s")
    assert printed.out == "job.batch/one condition met"


async def test_explain(kubectl: Kubectl) -> None:
    text = (await kubectl("explain", "job.spec.suspend")).out
    assert text.startswith("GROUP:  batch\nKIND:  Job\nVERSION:  v1\n\nFIELD: suspend <boolean>\n\n")
    assert "suspend specifies whether the Job controller should create Pods or not." in text
    text = (await kubectl("explain", "job.spec")).out
    assert "FIELD: spec <JobSpec>" in text
    for line in ("completions\t<integer>", "selector\t<LabelSelector>", "suspend\t<boolean>"):
        assert line in text
    text = (await kubectl("explain", "pod.spec.containers.image")).out
    assert "FIELD: image <string>" in text
    text = (await kubectl("explain", "configmap.metadata.labels")).out
    assert "FIELD: labels <map[string]string>" in text
    version = "--api-version=kueue.x-k8s.io/v1beta1"
    assert "FIELD: clusterQueue <string>" in (await kubectl("explain", "localqueue.spec.clusterQueue", version)).out
    assert (await kubectl("explain", "job.spec.nonsense", code=1)).error == 'error: field "nonsense" does not exist'


async def test_what_there_is(kubectl: Kubectl) -> None:
    resources = (await kubectl("api-resources")).out.splitlines()
    assert resources[0] == "NAME  SHORTNAMES  APIVERSION  NAMESPACED  KIND"
    for line in (
        "configmaps  cm  v1  true  ConfigMap",
        "namespaces  ns  v1  false  Namespace",
        "jobs  batch/v1  true  Job",
        "cronjobs  cj  batch/v1  true  CronJob",
        "leases  coordination.k8s.io/v1  true  Lease",
        "customresourcedefinitions  crd,crds  apiextensions.k8s.io/v1  false  CustomResourceDefinition",
        "multikueueclusters  kueue.x-k8s.io/v1beta2  false  MultiKueueCluster",
        "selfsubjectaccessreviews  authorization.k8s.io/v1  false  SelfSubjectAccessReview",
    ):
        assert line in resources
    versions = (await kubectl("api-versions")).out.splitlines()
    assert {"batch/v1", "v1", "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"} <= set(versions)
    text = (await kubectl("version")).out
    assert "Server Version: v1.37." in text
    wide = (await kubectl("api-resources", "--api-group=batch", "-o", "wide")).out.splitlines()
    assert wide[-1] == "jobs  batch/v1  true  Job  create,delete,deletecollection,get,list,patch,update,watch  all"


async def test_who_may_what(kubectl: Kubectl, nobody: Kubectl) -> None:
    assert (await kubectl("auth", "can-i", "delete", "jobs")).out == "yes"
    assert (await nobody("auth", "can-i", "delete", "jobs", code=1)).out == "no"
    assert (await kubectl("auth", "whoami")).out == (
        "ATTRIBUTE  VALUE\nUsername  admin\nUID  admin\nGroups  [system:masters system:authenticated]"
    )
    assert (await nobody("get", "jobs", code=1)).error == (
        'Error from server (Forbidden): jobs.batch is forbidden: User "manager" cannot list resource "jobs" in API group '
        '"batch" in the namespace "NS"'
    )
    everything = (await kubectl("auth", "can-i", "--list")).out.splitlines()
    assert everything[:2] == ["Resources  Non-Resource URLs  Resource Names  Verbs", "*.*  []  []  [*]"]


async def test_a_right_is_given(kubectl: Kubectl, nobody: Kubectl) -> None:
    await kubectl("create", "role", "reader", "--verb=get,list", "--resource=jobs.batch")
    await kubectl("create", "rolebinding", "reader", "--role=reader", "--user=manager")
    await eventually(lambda: _may(nobody, "list", "jobs.batch"), timeout=30)
    assert (await nobody("get", "jobs")).error == "No resources found in NS namespace."
    assert (await kubectl("auth", "can-i", "list", "jobs.batch", "--as=manager")).out == "yes"


async def _may(kubectl: Kubectl, verb: str, resource: str) -> bool:
    return (await kubectl("auth", "can-i", verb, resource, code=None)).out == "yes"


async def test_a_service_account(kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "robot")
    token = (await kubectl("create", "token", "robot")).out
    assert token.count(".") == 2
    anonymous = Kubectl(kubectl.program, _without_user(kubectl.config, kubectl.home), kubectl.home, kubectl.namespace)
    text = (await anonymous("auth", "whoami", "--token", token)).out.splitlines()
    assert text[1] == "Username  system:serviceaccount:NS:robot"
    printed = await anonymous("get", "pods", "--token", "nonsense", code=1)
    assert printed.error.splitlines()[-1] == (
        "error: You must be logged in to the server (the server has asked for the client to provide credentials)"
    )


def _without_user(config: Path, folder: Path) -> Path:
    content = yaml.safe_load(config.read_text())
    content["users"][0]["user"] = {}
    path = folder / "anonymous"
    path.write_text(yaml.safe_dump(content))
    return path


async def test_a_namespace_and_what_is_in_it(kubectl: Kubectl) -> None:
    assert (
        await kubectl("get", "ns", "NS".replace("NS", kubectl.namespace))
    ).out == "NAME  STATUS  AGE\nNS  Active  AGE"
    printed = await kubectl("create", "cm", "x", "-n", "nowhere", code=1)
    assert printed.error == 'error: failed to create configmap: namespaces "nowhere" not found'


async def test_a_diff(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=config_map(a="1"))
    printed = await kubectl("diff", "-f", "-", stdin=config_map(a="2"), code=1)
    assert '-  a: "1"\n+  a: "2"' in printed.out


@pytest.mark.usefixtures("only_sandbox")
async def test_logs_say_that_nothing_runs(kubectl: Kubectl) -> None:
    await kubectl("run", "p", "--image=busybox")
    assert (await kubectl("logs", "p")).out == "fakekube runs no containers: pod p has nothing to say."


@pytest.mark.usefixtures("only_sandbox")
async def test_a_namespace_goes_with_all_that_is_in_it(kubectl: Kubectl) -> None:
    await kubectl("create", "cm", "x")
    assert (await kubectl("delete", "ns", kubectl.namespace)).out == 'namespace "NS" deleted'
    assert (await kubectl("get", "cm")).error == "No resources found in NS namespace."
