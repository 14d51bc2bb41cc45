"""Keeps the workers equal to an inventory: looks, plans (`registration.fleet`), and carries out what is left to do."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import anyio
import msgspec

from multikueue.api.kind import Kind
from multikueue.api.kinds import MANAGED_SERVICE_ACCOUNTS, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, SECRETS
from multikueue.api.kubernetes.builtins import Secret
from multikueue.api.meta import ObjectKey, find_condition, without_condition
from multikueue.api.multikueue.clusters import (
    DRAINED,
    FLEET_LABEL,
    IN_FLEET,
    KUBECONFIG_KEY,
    MultiKueueCluster,
)
from multikueue.controllers.fleet.inventories import ClusterInventory, inventory_of
from multikueue.controllers.reconcile.conditions import write_condition, write_status
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.reconcile.events import some
from multikueue.durations import Drain, parse_drain
from multikueue.errors import AlreadyExists, Forbidden, InvalidObject, MultiKueueError, NotFound
from multikueue.registration.accounts import MANIFEST_WORKS
from multikueue.registration.credentials import Credential, Endpoint, build_kubeconfig
from multikueue.registration.fleet import FleetPlan, FleetRules, FleetSeen, FleetStep, plan_fleet
from multikueue.registration.members import CREDENTIAL_ANNOTATION, FleetMember, Inventoried
from multikueue.registration.plan import LABELS
from multikueue.settings import FleetMembers
from multikueue.telemetry import get_logger

__all__ = ["Membership", "keep_members", "rules_of"]

log = get_logger()

SETTLE = timedelta(seconds=1)
"""Changes are collected for so long: a hub that starts sends a thousand clusters one after another."""

LOOK_EVERY = timedelta(seconds=30)
"""What failed is tried again, and no cluster is forgotten whose news was missed."""

AT_ONCE = 16
"""Writes under way at a time."""

SHOWN = 3
"""Clusters that an event names."""


async def keep_members(context: ReconcileContext, namespace: str) -> None:
    """Keeps the fleet until cancelled. `namespace` is the manager's, where the Secrets are."""
    settings = context.settings.settings.fleet
    membership = Membership(context, inventory_of(context, settings, namespace), namespace)
    await membership.run()


def rules_of(settings: FleetMembers, origin: str) -> FleetRules:
    drain = parse_drain(settings.drain) or Drain()
    return FleetRules(origin=origin, config=settings.config, most=settings.most_leaving, drain=drain)


@dataclass(slots=True)
class Membership:
    """Owner of the fleet's objects. Only since when a cluster is missing is in memory: after a restart its worker stays for
    longer, and never for shorter."""

    context: ReconcileContext
    inventory: ClusterInventory
    namespace: str
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _missing: dict[str, datetime] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)

    async def run(self) -> None:
        store = self.context.store
        store.clusters.observe(self._cluster_changed)
        store.configs.observe(lambda _old, _new: self._wake())
        store.secrets.observe(lambda _old, _new: self._wake())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.inventory.run, self._wake)
            await self.inventory.synced()
            while True:
                self._changed = anyio.Event()
                wait = await self.look()
                with anyio.move_on_after(wait.total_seconds()):
                    await self._changed.wait()
                await anyio.sleep(SETTLE.total_seconds())

    def _wake(self) -> None:
        self._changed.set()

    def _cluster_changed(self, old: MultiKueueCluster | None, new: MultiKueueCluster | None) -> None:
        """Connections come and go all the time, and are no news here."""
        if _shown(old) != _shown(new):
            self._wake()

    async def look(self) -> timedelta:
        """One look, with all that is due now. Returns how long until the next one is due without news."""
        now, rules = self.context.now(), rules_of(self.context.settings.settings.fleet, self.context.origin)
        inventory = self.inventory.members()
        await self._each((self._fetch(each), f"credential of {each.name}") for each in self._stale(inventory))
        inventory = self.inventory.members()
        plan = plan_fleet(rules, self._seen(rules, inventory, now))
        for kinds in (("join", "follow", "leave", "return"), ("configure",), ("remove",)):
            await self._each((self._do(step), f"{step.kind} {step.name}") for step in plan.steps if step.kind in kinds)
        self._tell(plan)
        await self._each(
            (self._condition(each, plan), f"condition of {each.metadata.name}") for each in self._told_of(plan)
        )
        return min(LOOK_EVERY, max(plan.again - now, timedelta())) if plan.again is not None else LOOK_EVERY

    def _ours(self) -> Iterable[MultiKueueCluster]:
        return [
            each for each in self.context.store.clusters if each.metadata.labels.get(FLEET_LABEL) == self.context.origin
        ]

    def _told_of(self, plan: FleetPlan) -> Iterable[MultiKueueCluster]:
        """Those that have a condition of the fleet, or are to get one."""
        return [
            each
            for each in self._ours()
            if each.metadata.name in plan.conditions or find_condition(each.status.conditions, IN_FLEET) is not None
        ]

    def _seen(self, rules: FleetRules, inventory: Inventoried, now: datetime) -> FleetSeen:
        store = self.context.store
        gone = [each.metadata.name for each in self._ours() if each.metadata.name not in inventory.members]
        self._missing = {name: self._missing.get(name, now) for name in gone} if not inventory.problem else {}
        return FleetSeen(
            inventory=inventory,
            clusters={each.metadata.name: each for each in store.clusters},
            config=store.configs.get(ObjectKey("", rules.config)),
            missing=self._missing,
            now=now,
        )

    # What is done.

    async def _each(self, works: Iterable[tuple[Coroutine[Any, Any, None], str]]) -> None:
        """Does the works, some at a time. One that fails keeps no other from it, and is tried again at the next look."""
        limiter = anyio.CapacityLimiter(AT_ONCE)

        async def one(work: Coroutine[Any, Any, None], what: str) -> None:
            async with limiter:
                try:
                    await work
                except MultiKueueError as error:
                    self._log(what, "fleet.step_failed", step=what, why=str(error))
                else:
                    self._told.pop(what, None)

        async with anyio.create_task_group() as tasks:
            for work, what in works:
                tasks.start_soon(one, work, what)

    async def _do(self, step: FleetStep) -> None:
        """One step of a plan. What others did meanwhile comes as news, and is looked at then."""
        client, store, key = self.context.manager, self.context.store, ObjectKey("", step.name)
        log.info(f"fleet.{step.kind}", name=step.name)
        try:
            match step.kind:
                case "join":
                    store.clusters.upsert(
                        await client.create(MULTIKUEUE_CLUSTERS, "", _made(MULTIKUEUE_CLUSTERS, step))
                    )
                case "configure" if not step.uid:
                    store.configs.upsert(await client.create(MULTIKUEUE_CONFIGS, "", _made(MULTIKUEUE_CONFIGS, step)))
                case "configure":
                    store.configs.upsert(await client.merge_patch(MULTIKUEUE_CONFIGS, key, step.body))
                case "remove":
                    await self._remove(key, step.uid)
                case _:
                    store.clusters.upsert(await client.merge_patch(MULTIKUEUE_CLUSTERS, key, step.body))
        except (AlreadyExists, NotFound):
            return
        if step.kind in ("leave", "return") and (cluster := store.clusters.get(key)) is not None:
            reason, what = ("Leaving", "is drained") if step.kind == "leave" else ("Returned", "is used again")
            message = (
                f"its inventory {'has it again' if step.kind == 'return' else 'does not have it any more'}: it {what}"
            )
            self.context.recorder.emit(MULTIKUEUE_CLUSTERS, cluster, type_="Normal", reason=reason, message=message)

    async def _remove(self, key: ObjectKey, uid: str) -> None:
        """Deletes a MultiKueueCluster, the Secret that the fleet made for it, and its account with its rights where `register`
        made these on the hub."""
        client, cluster = self.context.manager, self.context.store.clusters.get(key)
        source = cluster.spec.cluster_source.kube_config if cluster is not None else None
        await client.delete(MULTIKUEUE_CLUSTERS, key, uid=uid)
        secret = ObjectKey(self.namespace, source.location) if source is not None else None
        found = self.context.store.secrets.get(secret) if secret is not None else None
        if found is not None and found.metadata.labels.get(FLEET_LABEL) == self.context.origin:
            await client.delete(SECRETS, found.key, uid=found.metadata.uid)
        if account := self.context.settings.settings.fleet.service_account:
            for kind in (MANIFEST_WORKS, MANAGED_SERVICE_ACCOUNTS):
                await self._remove_from_hub(kind, ObjectKey(key.name, account))

    async def _remove_from_hub(self, kind: Kind[Any], key: ObjectKey) -> None:
        with suppress(NotFound, Forbidden):
            there = await self.context.manager.get(kind, key)
            if there.metadata.labels.items() >= LABELS.items():
                await self.context.manager.delete(kind, key, uid=there.metadata.uid)

    def _stale(self, inventory: Inventoried) -> list[FleetMember]:
        """Members whose Secret has to be made, or made again. One that is not the fleet's is left alone."""
        found = [each for each in inventory.members.values() if each.token is not None]
        return [each for each in found if self._is_stale(self._secret(each), each)]

    def _secret(self, member: FleetMember) -> Secret | None:
        ((_, name),) = member.place
        return self.context.store.secrets.get(ObjectKey(self.namespace, name))

    def _is_stale(self, secret: Secret | None, member: FleetMember) -> bool:
        if secret is None or member.token is None:
            return True
        is_ours = secret.metadata.labels.get(FLEET_LABEL) == self.context.origin
        return is_ours and secret.metadata.annotations.get(CREDENTIAL_ANNOTATION) != member.token.digest

    async def _fetch(self, member: FleetMember) -> None:
        """Makes the Secret of a member out of its account's token. Raises InvalidObject if there is none in it."""
        client, token = self.context.manager, member.token
        assert token is not None
        held = await client.get(SECRETS, token.secret)
        try:
            bearer = b64decode(held.data.get("token", ""), validate=True).decode()
            authority = b64decode(held.data.get("ca.crt", ""), validate=True)
        except ValueError:
            bearer = ""
        if not bearer:
            raise InvalidObject(f"Secret {token.secret}", "data.token", "a token of the ManagedServiceAccount")
        endpoint = Endpoint(server=token.server, ca=authority if token.authority is None else token.authority)
        credential = Credential(kind="token", user={"token": bearer}, expires=None)
        kubeconfig = b64encode(build_kubeconfig(member.name, endpoint, credential)).decode()
        ((_, name),) = member.place
        metadata = {
            "name": name,
            "namespace": self.namespace,
            "labels": {**LABELS, FLEET_LABEL: self.context.origin},
            "annotations": {CREDENTIAL_ANNOTATION: token.digest},
        }
        there = self._secret(member)
        if there is None:
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {KUBECONFIG_KEY: kubeconfig}}
            made = await client.create(SECRETS, self.namespace, body)
        else:
            body = {"metadata": {**metadata, "uid": there.metadata.uid}, "data": {KUBECONFIG_KEY: kubeconfig}}
            made = await client.merge_patch(SECRETS, there.key, body)
        self.context.store.secrets.upsert(made)

    # What is reported.

    async def _condition(self, cluster: MultiKueueCluster, plan: FleetPlan) -> None:
        """Reports to a worker that the inventory does not have what becomes of it, and to no other one."""
        cache, wanted = self.context.store.clusters, plan.conditions.get(cluster.metadata.name)
        if wanted is not None:
            wanted = msgspec.structs.replace(wanted, observed_generation=cluster.metadata.generation)
            await write_condition(self.context, MULTIKUEUE_CLUSTERS, cache, cluster, wanted, self.context.now())
        else:
            rest = without_condition(cluster.status.conditions, IN_FLEET)
            status = msgspec.structs.replace(cluster.status, conditions=rest)
            await write_status(self.context, MULTIKUEUE_CLUSTERS, cache, cluster, status)

    def _tell(self, plan: FleetPlan) -> None:
        """Says by an event of the MultiKueueConfig, and in the log, who is held, and who cannot join, once."""
        config = self.context.store.configs.get(ObjectKey("", self.context.settings.settings.fleet.config))
        held = next((each for each in plan.conditions.values() if each.reason == "Held"), None)
        problems = [f"{name}: {why}" for name, why in plan.problems.items()]
        told = {
            "FleetHeld": held.message if held is not None else "",
            "NotInFleet": some(problems, SHOWN),
        }
        for reason, message in told.items():
            self._log(reason, "fleet.unclear", reason=reason, why=message)
            if config is not None and self._is_news(f"event {reason}", message):
                self.context.recorder.emit(MULTIKUEUE_CONFIGS, config, type_="Warning", reason=reason, message=message)

    def _log(self, topic: str, event: str, *, why: str, **fields: str) -> None:
        """Warns in the log, if that is news."""
        if self._is_news(topic, why):
            log.warning(event, why=why, **fields)

    def _is_news(self, topic: str, message: str) -> bool:
        """Whether the message differs from the last one of its topic; an empty one is no news."""
        said, self._told[topic] = self._told.get(topic, ""), message
        return message not in ("", said)


def _shown(cluster: MultiKueueCluster | None) -> object:
    """What a plan reads of it."""
    if cluster is None:
        return None
    meta, drained = cluster.metadata, find_condition(cluster.status.conditions, DRAINED)
    return meta.uid, meta.labels, meta.annotations, meta.deletion_timestamp, cluster.spec, drained and drained.status


def _made(kind: Kind[Any], step: FleetStep) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **step.body}
