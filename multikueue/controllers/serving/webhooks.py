"""Keeps the admission webhook in place: its certificate in a Secret that all replicas share, and its registration.

The order matters at a renewal: Secret, then registration (whose bundle trusts the new and the old certificate), then
the server. So the server never has a certificate that the API server does not trust yet.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio
import msgspec

from multikueue.api.jobs.pod import GROUP_ANNOTATION, GROUP_LABEL
from multikueue.api.kind import Kind
from multikueue.api.kinds import JOBS, MUTATING_WEBHOOKS
from multikueue.api.kueue.queues import LocalQueue
from multikueue.api.kueue.workload import (
    MAX_EXEC_TIME_LABEL,
    PREBUILT_ANNOTATION,
    PREBUILT_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
)
from multikueue.api.meta import ObjectKey
from multikueue.controllers.serving.certificate import issued_certificate, keep_certificate
from multikueue.controllers.serving.names import CONFIGURATION, MANAGED_BY
from multikueue.errors import (
    AlreadyExists,
    ClusterUnreachable,
    Conflict,
    MultiKueueError,
    NotFound,
    NotLeading,
    ServerError,
    Throttled,
)
from multikueue.jobs.framework.webhook import COMPLETIONS_ANNOTATION, DEFAULT_QUEUE
from multikueue.jobs.framework.workloads import MIN_PARALLELISM_ANNOTATION
from multikueue.kube.cluster_client import ClusterClient
from multikueue.runtime import Clock, Result, first
from multikueue.store.caches.cache import Cache
from multikueue.telemetry import get_logger
from multikueue.web.server import WEBHOOK_PATH, Server
from multikueue.web.serving import Serving

log = get_logger()

CERTIFICATE_SECRET = "multikueue-webhook-certificate"  # noqa: S105  # the name of one
LOOK_AGAIN_AFTER = timedelta(seconds=15)
RETRY_AFTER = timedelta(seconds=5)
LEADER_IS_NEW = timedelta(seconds=1)

_PATIENCE_SECONDS = 5
_NAME_OF_NAMESPACE = "kubernetes.io/metadata.name"
# Our replicas write the same object: so many lost races in a row are tried again, one more is an error.
_ATTEMPTS = 5


class Service(msgspec.Struct, frozen=True):
    """The Service in front of our webhook port, by which the API server of the cluster we run in finds us."""

    namespace: str
    name: str
    port: int = 443


class Webhooks(msgspec.Struct, frozen=True, kw_only=True):
    """Reconciles the webhook of one manager cluster.

    `namespace` holds the Secret, and its jobs are not reviewed. `issued`, if not empty, names the Secret with a certificate
    that something else keeps; otherwise it is our own. `kinds` are the kinds of jobs in use, there or not;
    `templates` the kinds that make jobs. `defaulting` returns the namespaces in which jobs without a queue get one.
    `address` is how the API server reaches us: a Service, or an https URL without path when we run elsewhere (with
    `port` 0, the port taken replaces the URL's). `client_ca` (PEM), if not empty, signed the API server's client
    certificate.
    """

    client: ClusterClient
    server: Server
    now: Callable[[], datetime]
    namespace: str
    address: Service | str
    host: str
    port: int
    client_ca: str = ""
    issued: str = ""
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    kinds: Sequence[Kind[Any]] = (JOBS,)
    templates: Sequence[Kind[Any]] = ()
    defaulting: Callable[[], Sequence[str]] = tuple

    async def start(self) -> int:
        """Certificate, listening socket, registration, in this order; returns the port. Once, before `reconcile`."""
        certificate = await self._certificate()
        port = await self.server.serve_webhook(self.host, self.port, certificate, client_ca=self.client_ca)
        await self._register(certificate, port)
        log.info("webhook.serving", host=self.host, port=port)
        return port

    async def reconcile(self, port: int) -> Result:
        """Restores the registration, renews the certificate when due. Writes nothing when all is in place."""
        certificate = await self._certificate()
        await self._register(certificate, port)
        self.server.load(certificate)
        return Result(again_after=LOOK_AGAIN_AFTER)

    async def _certificate(self) -> Serving:
        if self.issued:
            return await issued_certificate(self.client, ObjectKey(self.namespace, self.issued))
        key = ObjectKey(self.namespace, CERTIFICATE_SECRET)
        return await keep_certificate(self.client, key, names=names_of(self.address), now=self.now)

    async def _register(self, certificate: Serving, port: int) -> None:
        wanted = webhooks(
            client_config(self.address, certificate.bundle, port=port if self.port == 0 else None),
            namespace=self.namespace,
            failure_policy=self.failure_policy,
            kinds=self.kinds,
            templates=self.templates,
            defaulting=self.defaulting(),
        )
        for _ in range(_ATTEMPTS):
            try:
                return await self._registered(wanted)
            except (NotFound, AlreadyExists, Conflict):
                continue
        raise Conflict(
            409, "Conflict", f"MutatingWebhookConfiguration {CONFIGURATION} keeps changing while we look at it"
        )

    async def _registered(self, wanted: list[dict[str, Any]]) -> None:
        try:
            found = await self.client.get(MUTATING_WEBHOOKS, CONFIGURATION)
        except NotFound:
            await self.client.create(MUTATING_WEBHOOKS, "", _configuration(wanted))
            log.info("webhook.registered", configuration=str(CONFIGURATION))
            return
        if is_in_place(wanted, msgspec.json.decode(found.webhooks)):
            return
        patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "webhooks": wanted}
        await self.client.merge_patch(MUTATING_WEBHOOKS, CONFIGURATION, patch)
        log.info("webhook.registration_repaired", configuration=str(CONFIGURATION))


async def keep_webhook(
    webhook: Webhooks,
    *,
    clock: Clock,
    started: Callable[[int], None],
    pause: Callable[[float], Awaitable[None]] | None = None,
) -> None:
    """Starts the webhook, calls `started` with its port, and keeps it in place forever. `pause` waits so many seconds
    between two reconciles, or less if there is news; default: the clock's sleep.

    Transient errors, and a certificate that is not issued yet, are logged and retried. Other errors of the first start are
    raised: without its webhook a manager is never ready. A standby writes nothing: it serves as soon as the leader has
    put certificate and registration in place.
    """
    port = await _started(webhook, clock)
    started(port)
    wait = LOOK_AGAIN_AFTER
    while True:
        await (pause or clock.sleep)(wait.total_seconds())
        try:
            await webhook.reconcile(port)
        except NotLeading:
            wait = RETRY_AFTER
        except (MultiKueueError, ValueError, OSError) as error:
            log.warning("webhook.not_kept", error=str(error))
            wait = RETRY_AFTER
        else:
            wait = LOOK_AGAIN_AFTER


async def _started(webhook: Webhooks, clock: Clock) -> int:
    while True:
        try:
            return await webhook.start()
        except NotLeading:
            await clock.sleep(LEADER_IS_NEW.total_seconds())
        except (ClusterUnreachable, Throttled, ServerError, NotFound, ValueError) as error:
            log.warning("webhook.not_kept", error=str(error))
            await clock.sleep(RETRY_AFTER.total_seconds())


def names_of(address: Service | str) -> Sequence[str]:
    """The DNS names and IP addresses by which the API server may call us."""
    if isinstance(address, str):
        return (urlsplit(address).hostname or "",)
    local = f"{address.name}.{address.namespace}"
    return (f"{local}.svc", f"{local}.svc.cluster.local", local, address.name)


def client_config(address: Service | str, bundle: bytes, *, port: int | None = None) -> dict[str, Any]:
    """How the API server calls us; `port` replaces that of a URL."""
    trusted = {"caBundle": b64encode(bundle).decode()}
    if isinstance(address, Service):
        service = {"namespace": address.namespace, "name": address.name, "path": WEBHOOK_PATH, "port": address.port}
        return {"service": service, **trusted}
    url = urlsplit(address)
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
    at = port or url.port
    return {"url": f"https://{host}{f':{at}' if at else ''}{WEBHOOK_PATH}", **trusted}


def webhooks(
    client_config: dict[str, Any],
    *,
    namespace: str,
    failure_policy: Literal["Fail", "Ignore"],
    kinds: Sequence[Kind[Any]] = (JOBS,),
    templates: Sequence[Kind[Any]] = (),
    defaulting: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The entries of our configuration, with every field the server would default spelled out.

    New jobs must pass the webhook, or they would run unsuspended on the manager: the failure policy ensures that. An
    update of a job is reviewed only if it touches fields that we have rules for, and our failure never blocks it; an
    update of a template is reviewed like a new one. Objects without a queue are reviewed in the namespaces of
    `defaulting` only. That entry is last: an object that gets its queue there is complete, so no later entry need be
    called for it.
    """
    spaces = [each for each in defaulting if each not in _excluded(namespace)]
    common = {
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config,
        "matchPolicy": "Equivalent",
        "namespaceSelector": {
            "matchExpressions": [{"key": _NAME_OF_NAMESPACE, "operator": "NotIn", "values": _excluded(namespace)}]
        },
        "objectSelector": {"matchExpressions": [{"key": QUEUE_LABEL, "operator": "Exists"}]},
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
        "timeoutSeconds": _PATIENCE_SECONDS,
    }
    return [
        {
            "name": "create.jobs.multikueue.dev",
            "rules": _rules("CREATE", kinds),
            "failurePolicy": failure_policy,
            **common,
        },
        {
            "name": "update.jobs.multikueue.dev",
            "rules": _rules("UPDATE", kinds),
            "failurePolicy": "Ignore",
            "matchConditions": [{"name": "rules-of-ours-apply", "expression": _CHANGED}],
            **common,
        },
        *([_of_templates(templates, failure_policy, common)] if templates else ()),
        *([_without_queue([*kinds, *templates], failure_policy, common, spaces)] if spaces else ()),
    ]


def _of_templates(kinds: Sequence[Kind[Any]], failure_policy: str, common: dict[str, Any]) -> dict[str, Any]:
    rules = [rule | {"operations": ["CREATE", "UPDATE"]} for rule in _rules("CREATE", kinds)]
    return {"name": "templates.multikueue.dev", "rules": rules, "failurePolicy": failure_policy, **common}


def _without_queue(
    kinds: Sequence[Kind[Any]], failure_policy: str, common: dict[str, Any], namespaces: Sequence[str]
) -> dict[str, Any]:
    there = {"key": _NAME_OF_NAMESPACE, "operator": "In", "values": list(namespaces)}
    return {
        "name": "default.jobs.multikueue.dev",
        "rules": _rules("CREATE", kinds),
        "failurePolicy": failure_policy,
        **common,
        "namespaceSelector": {"matchExpressions": [there]},
        "objectSelector": {"matchExpressions": [{"key": QUEUE_LABEL, "operator": "DoesNotExist"}]},
    }


# The fields that `jobs.framework.webhook.refusal` reads. Not `suspend`: starting and stopping a job costs no call.
_RULED_ANNOTATIONS = (MIN_PARALLELISM_ANNOTATION, COMPLETIONS_ANNOTATION, PREBUILT_ANNOTATION, GROUP_ANNOTATION)
_RULED_LABELS = (QUEUE_LABEL, PREBUILT_LABEL, MAX_EXEC_TIME_LABEL, PRIORITY_CLASS_LABEL, GROUP_LABEL)


def _changed(path: str, absent: str) -> str:
    """A CEL expression: whether the field differs between the old and the new object."""
    old, new = (f"{side}.{path}.orValue({absent})" for side in ("oldObject", "object"))
    return f"{old} != {new}"


_CHANGED = " || ".join(
    (
        *(_changed(f"metadata.?labels[?'{label}']", absent="''") for label in _RULED_LABELS),
        *(_changed(f"metadata.?annotations[?'{name}']", absent="''") for name in _RULED_ANNOTATIONS),
        _changed("spec.?parallelism", absent="1"),
    )
)


def is_in_place(wanted: list[dict[str, Any]], found: list[dict[str, Any]]) -> bool:
    """Whether the entries found contain all that is wanted. A newer API server may add fields of its own."""
    if [entry["name"] for entry in wanted] != [entry.get("name") for entry in found]:
        return False
    return all(entry == {key: there.get(key) for key in entry} for entry, there in zip(wanted, found, strict=True))


def _excluded(namespace: str) -> list[str]:
    return sorted({"kube-system", namespace})


def _rules(operation: str, kinds: Sequence[Kind[Any]]) -> list[dict[str, Any]]:
    return [
        {
            "apiGroups": [kind.group],
            "apiVersions": [kind.version],
            "operations": [operation],
            "resources": [kind.plural],
            "scope": "Namespaced",
        }
        for kind in kinds
    ]


def _configuration(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": MUTATING_WEBHOOKS.api_version,
        "kind": MUTATING_WEBHOOKS.kind,
        "metadata": {"name": CONFIGURATION.name, "labels": MANAGED_BY},
        "webhooks": entries,
    }


class DefaultQueues:
    """Follows the LocalQueues of the manager cluster from now on.

    Such a queue takes the jobs that name no queue (quota-engine 6.1). The registration names the namespaces that have one,
    so that jobs without a queue cause no calls in other namespaces.
    """

    def __init__(self, queues: Cache[LocalQueue]) -> None:
        self._namespaces: set[str] = set()
        self._news = anyio.Event()
        for queue in queues:
            self._changed(None, queue)
        queues.follow(self._changed)

    def __contains__(self, namespace: str) -> bool:
        return namespace in self._namespaces

    def take(self) -> tuple[str, ...]:
        """The namespaces, sorted; `pause` waits for a change from now on."""
        self._news = anyio.Event()
        return tuple(sorted(self._namespaces))

    async def pause(self, clock: Clock, seconds: float) -> None:
        """Returns after so many seconds, or as soon as the namespaces changed after `take`."""
        await first(lambda: clock.sleep(seconds), lambda: self._news.wait())

    def _changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        queue = new or old
        assert queue is not None
        if queue.metadata.name != DEFAULT_QUEUE or (old is not None and new is not None):
            return
        if new is not None:
            self._namespaces.add(queue.metadata.namespace)
        else:
            self._namespaces.discard(queue.metadata.namespace)
        self._news.set()
