"""The effects of faults of a part on a world: a handler for each, which returns the function that ends its effect."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, singledispatchmethod
from typing import Any, NoReturn

import msgspec
from prometheus_client import Counter, Gauge, Histogram

from fakekube.model.storage import key_of
from fakekube.model.wire import Object, Refused, Request, Response
from fakekube.network.interceptor import Interceptor
from fakekube.network.link import State
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION, QUOTA_RESERVED
from multikueue.api.meta import ObjectKey, render_time
from multikueue.kube.transport.session import USER_AGENT
from multikueue.telemetry.metrics import LabelledInstrument, Metrics
from multikueue.telemetry.sink import LogSink
from multikueue_simulator.simulation import seen
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector, Undo
from multikueue_simulator.simulation.plan import partial as parts
from multikueue_simulator.simulation.plan import plan as plans
from multikueue_simulator.simulation.plan.partial import Partial
from multikueue_simulator.time import the_loop
from multikueue_simulator.world.world import ADMISSION, NAMESPACE, ClusterHandle, World

__all__ = ["Logs", "PartialInjector"]

PERSON = "somebody"
"""The user of direct calls, whom no fault of a part concerns: events must be able to end."""

ODD_PRIORITY = 7

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OPERATIONS = {"POST": "CREATE", "PUT": "UPDATE", "PATCH": "UPDATE", "DELETE": "DELETE"}
_REASONS = {
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    500: ("InternalError", "etcdserver: request timed out"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "the server was unable to return a response in the time allotted, but may still be processing it"),
}


@dataclass(slots=True)
class Logs:
    """Where the managers' logs go, besides to who listens; and the events of level error that are `expected`.
    `is_written`: some time they go there."""

    is_written: bool = False
    sink: LogSink | None = None
    expected: set[str] = field(default_factory=set)

    def write(self, event: Mapping[str, Any]) -> None:
        """Write an event as a manager does."""
        if self.sink is not None:
            self.sink.write(msgspec.json.encode(event, enc_hook=str) + b"\n")


@dataclass(slots=True)
class PartialInjector:
    """Owner of the parts that do not work."""

    world: World
    injector: FaultInjector
    logs: Logs
    _number: int = 0

    @singledispatchmethod
    def do(self, event: Partial) -> Undo | None:
        """Apply an event. Raises Refused if it is impossible."""
        raise NotImplementedError(event)

    # Servers.

    @do.register
    def _refuse_verb(self, event: parts.RefuseVerb) -> Undo:
        """Open watches go on, as with a real server; a refused watch or list shows at once, as the connections break."""
        site, host = self.world.site(event.host), self.world.network.hosts[event.host]
        is_read = event.verb in parts.READS
        past = (
            self.injector.fault(event.host) if is_read else self.injector.fault_of_a_part(event.host, mutes=event.mutes)
        )
        is_over = False

        async def refuse(request: Request) -> Response | None:
            if not is_over and _is_of_a_manager(request) and _asked(site, request) == (event.kind, event.verb):
                raise _refusal(site, request, event)
            return None

        host.api = Interceptor(host.api, before=refuse)
        if is_read:
            for source in self.world.network.sources(event.host):
                self.world.network.link(source, event.host).cut()

        def undo() -> None:
            nonlocal is_over
            is_over = True
            past()

        return undo

    @do.register
    def _fail_webhook(self, event: parts.FailWebhook) -> Undo:
        def fail(_request: Object) -> NoReturn:
            if event.is_late:
                raise TimeoutError
            raise OSError("dial tcp 10.0.0.9:443: connect: connection refused")

        site, host = self.world.site(event.host), self.world.network.hosts[event.host]
        plural, _, subresource = event.kind.partition("/")

        def delay(request: Request) -> float:
            route = site.cluster.api.router.find(request.path) if request.method in _OPERATIONS else None
            is_asked = route is not None and (route.resource.plural, route.subresource) == (plural, subresource)
            is_asked = is_asked and _OPERATIONS[request.method] in event.operations
            return parts.WEBHOOK_TIMEOUT if is_asked else 0.0

        unhook = self._hook(event.host, event.kind, event.operations, fail)
        past = self.injector.fault_of_a_part(event.host, mutes=event.mutes)
        if event.is_late:
            host.delays.append(delay)

        def undo() -> None:
            if event.is_late:
                host.delays.remove(delay)
            unhook()
            past()

        return undo

    @do.register
    def _drop_field(self, event: parts.DropField) -> Undo:
        kind, path = parts.FIELDS[event.what]
        top, name = path.strip("/").split("/")

        core = self.world.core

        def change(request: Object) -> list[Object]:
            if core is not None and request["userInfo"]["username"] == core.name:
                return []
            if event.what == "priority":
                return [{"op": "add", "path": path, "value": ODD_PRIORITY}]
            return [{"op": "remove", "path": path}] if (request["object"].get(top) or {}).get(name) is not None else []

        operations = ("CREATE",) if event.what == "priority" else ("CREATE", "UPDATE")
        unhook = self._hook(event.host, kind, operations, change)
        past = self.injector.fault_of_a_part(event.host, mutes=event.mutes)
        self.injector.dropped[event.what] = float("inf")

        def undo() -> None:
            self.injector.dropped[event.what] = the_loop().time()
            unhook()
            past()

        return undo

    @do.register
    def _nameless(self, event: parts.Nameless) -> Undo:
        replicas = [replica.name for replica in self.injector.plan.replicas]
        ends = [
            self.injector.do(plans.Break(replica=replica, host=event.host, state=State.NAMELESS))
            for replica in replicas
        ]

        def undo() -> None:
            for end in ends:
                if end is not None:
                    end()

        return undo

    def _hook(
        self, host: str, kind: str, operations: tuple[str, ...], answer: Callable[[Object], list[Object]]
    ) -> Undo:
        """Have a mutating webhook for writes of a resource. `answer` gives the operations of a JSON patch, or raises
        OSError."""
        self._number += 1
        site = self.world.site(host)
        name = f"part{self._number}.example.com"

        def review(asked: Object) -> Object:
            request = asked["request"]
            changes = [] if request["userInfo"]["username"] == PERSON else answer(request)
            patch = (
                {"patchType": "JSONPatch", "patch": b64encode(msgspec.json.encode(changes)).decode()} if changes else {}
            )
            return {**asked, "response": {"uid": request["uid"], "allowed": True, **patch}}

        site.cluster.admission.local[name] = review
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": [kind], "operations": list(operations)}
        body: Object = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": name,
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "clientConfig": {"url": f"https://{name}/"},
                    "rules": [rule],
                }
            ],
        }
        collection = f"{ADMISSION}/mutatingwebhookconfigurations"
        site.call("POST", collection, body)
        return self.injector.remembered(host, lambda: _drop(site, f"{collection}/{name}"))

    # Programs.

    @do.register
    def _fail_observers(self, event: parts.FailObservers) -> Undo | None:
        metrics = self.world.managers[event.replica].metrics
        if metrics is None:  # it does not run
            return None
        before = dict(vars(metrics))
        self.logs.expected.add("look.failed")
        _spoil(metrics)

        def undo() -> None:
            vars(metrics).update({name: value for name, value in before.items() if isinstance(value, _COUNTING)})

        return undo

    @do.register
    def _fill_log(self, event: parts.FillLog) -> Undo:
        sink, descriptor = _sink()
        reader, writer = os.pipe()
        os.dup2(writer, descriptor)
        os.close(writer)
        if event.what == "gone":
            os.close(reader)
        self.logs.sink = sink

        def undo() -> None:
            self.logs.sink = None
            if event.what == "unread":
                os.close(reader)

        return undo

    # What others write.

    @do.register
    def _share_field(self, event: parts.ShareField) -> None:
        found = self.injector.workload(event.job)
        winner = ((found or {}).get("status") or {}).get("clusterName")
        if found is None or not winner:
            return
        self.injector.shared.add(event.job)
        if self.world.core is not None:
            self.world.core.behave(replace(self.world.core.behaviour, cannot_clear=frozenset({"clusterName"})))
        body = {
            "apiVersion": kinds.WORKLOADS.api_version,
            "kind": kinds.WORKLOADS.kind,
            "metadata": {"name": found["metadata"]["name"], "namespace": NAMESPACE},
            "status": {"clusterName": winner},
        }
        path = kinds.WORKLOADS.path(seen.key(found), subresource="status")
        options = {"fieldManager": PERSON, "force": "true"}
        self.world.manager.call("PATCH", path, body, content_type="application/apply-patch+yaml", query=options)

    @do.register
    def taken_over(self, event: parts.TakenOver) -> None:
        """Call it while no manager runs. Does nothing unless the job has a winner, and runs there."""
        local = self.injector.workload(event.job)
        winner = ((local or {}).get("status") or {}).get("clusterName")
        reserved = seen.condition(local, QUOTA_RESERVED) if local else None
        if local is None or not winner or reserved is None or seen.is_leaving(local):
            return
        site = self.world.workers[winner].site
        job, copy = (
            site.stored(kinds.JOBS, ObjectKey(NAMESPACE, event.job)),
            site.stored(kinds.WORKLOADS, seen.key(local)),
        )
        if job is None or copy is None or not seen.is_running(job) or seen.is_leaving(job):
            return
        self.injector.taken_over[job["metadata"]["uid"]] = event.job, seen.attempt(job)
        stamp = render_time(datetime.fromisoformat(reserved["lastTransitionTime"]) - timedelta(seconds=event.behind))
        for kind, body in ((kinds.WORKLOADS, copy), (kinds.JOBS, job)):
            _become_unmarked(site, kind, body, stamp)


def _is_of_a_manager(request: Request) -> bool:
    return request.user_agent.startswith(USER_AGENT)


def _asked(site: ClusterHandle, request: Request) -> tuple[str, str]:
    """The resource, with its subresource, and the verb of a request, as roles have them."""
    route = site.cluster.api.router.find(request.path)
    if route is None:
        return "", ""
    verb = _VERBS.get(request.method, "get" if route.name else "watch" if "watch" in request.query else "list")
    return "/".join(filter(None, (route.resource.plural, route.subresource))), verb


def _refusal(site: ClusterHandle, request: Request, event: parts.RefuseVerb) -> Refused:
    if event.code != 403:
        reason, message = _REASONS[event.code]
        return Refused(event.code, reason, message, retry_after=1 if event.code == 429 else None)
    route = site.cluster.api.router.find(request.path)
    assert route is not None
    resource, named = route.resource, f' "{route.name}"' if route.name else ""
    plural = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    message = (
        f'{plural}{named} is forbidden: User "multikueue" cannot {event.verb} resource "{event.kind}" '
        f'in API group "{resource.group}"'
    )
    return Refused(403, "Forbidden", message)


def _drop(site: ClusterHandle, path: str) -> None:
    site.call("DELETE", path)


def _become_unmarked(site: ClusterHandle, kind: Kind[Any], body: Object, stamp: str) -> None:
    metadata = dict(body["metadata"])
    annotations = {
        name: text for name, text in (metadata.get("annotations") or {}).items() if name != ATTEMPT_ANNOTATION
    }
    metadata |= {"creationTimestamp": stamp, "annotations": annotations}
    key = key_of(metadata["namespace"], metadata["name"])
    site.cluster.storage.put(f"{kind.plural}.{kind.group}", key, {**body, "metadata": metadata})


class _Raises:
    """An instrument whose every use raises an error."""

    def __call__(self, *_labels: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    def __getattr__(self, name: str) -> NoReturn:
        raise OSError(28, "No space left on device", name)


_COUNTING = (LabelledInstrument, Counter, Gauge, Histogram)


def _spoil(metrics: Metrics) -> None:
    for name, value in tuple(vars(metrics).items()):
        if isinstance(value, _COUNTING):
            setattr(metrics, name, _Raises())


@cache
def _sink() -> tuple[LogSink, int]:
    """The log of this process, as the manager has it: one, as its thread stays."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    return LogSink(descriptor), descriptor
