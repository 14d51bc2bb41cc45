"""A chaotic run from its first fault to its verdict."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import aiohttp
import anyio
import anyio.abc

from testbed import objects
from testbed.bed import Testbed
from testbed.chaos.judge import Glimpse, Judgement, Term, glimpse, judge
from testbed.chaos.report import Report, memory_of, named, too_large
from testbed.chaos.schedule import CLUSTERS, REPLICAS, WORKERS, Incident, draw
from testbed.chaos.stage import FRAMEWORKS, LOST_AFTER, NAMESPACE, Chaos
from testbed.chaos.work import JOBSET, complete, submission
from testbed.client import ApiError, Kind
from testbed.jobs import start_job
from testbed.objects import JOB, WORKLOAD

__all__ = ["run"]

LEASE = Kind("coordination.k8s.io/v1", "Lease")
ORIGIN = "kueue.x-k8s.io/multikueue-origin"

JOB_SECONDS = 5.0
"""From one submission to the next, on average."""

RUN_SECONDS = (1.0, 25.0)
PATIENCE_SECONDS = 180.0
"""After the last fault so much time may pass without the end of a job, as long as some are not over."""

TELL_SECONDS = 30.0
EXPECTED_ENDS = (0, 1, 3)
"""Exit codes of a process that lost the lease, or found no cluster at its start: it is started again."""

OUTSIDE = (aiohttp.ClientError, TimeoutError, ApiError)
"""Errors of an API server that has a fault."""


async def run(seed: int, minutes: float, folder: Path | None, tell: Callable[[str], None]) -> Report:
    """Play the faults of the seed for so many minutes, wait until all jobs are over, and judge. What happened is written
    into `events.jsonl` in the folder, beside the replicas' logs; they stay."""
    folder = folder or Path(tempfile.mkdtemp(prefix=f"multikueue-chaos-{seed}-"))
    folder.mkdir(parents=True, exist_ok=True)
    incidents = draw(seed, minutes * 60)
    for incident in incidents:
        tell(str(incident))
    tell(f"starting the clusters; events and logs are in {folder}")
    bed_of = Testbed.start(workers=len(WORKERS), crds=("kueue", "jobset"), frameworks=FRAMEWORKS)
    with (folder / "events.jsonl").open("w") as file:
        async with bed_of as bed, Chaos.set(bed, folder) as chaos:
            return await _Play(chaos, seed, minutes, incidents, file, tell).whole()


@dataclass(slots=True)
class _Play:
    chaos: Chaos
    seed: int
    minutes: float
    incidents: Sequence[Incident]
    file: TextIO
    tell: Callable[[str], None]
    story: list[Glimpse] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    submitted: int = 0
    played: set[str] = field(default_factory=set)
    told: int = 0

    async def whole(self) -> Report:
        foreign = [await self._plant(cluster) for cluster in CLUSTERS]
        async with anyio.create_task_group() as tasks:
            self.chaos.began += self.chaos.now()
            for cluster in CLUSTERS:
                for kind in (JOB, JOBSET, WORKLOAD):
                    await tasks.start(self._follow, cluster, kind, tasks)
            await tasks.start(self._follow_lease)
            for loop in (self.chaos.keep, self.chaos.measure, self._tell_all_along):
                tasks.start_soon(loop)
            async with anyio.create_task_group() as faults:
                faults.start_soon(self._submit, self.minutes * 60)
                for incident in self.incidents:
                    faults.start_soon(self._suffer, incident)
            finished_after = await self._until_over()
            await anyio.sleep(3)  # the last changes are seen
            tasks.cancel_scope.cancel()
        report = self._report(finished_after)
        report.complaints += [*self._own_ends(), *self._log_errors(), *too_large(report)]
        report.complaints += await self._left_over()
        for cluster, planted in zip(CLUSTERS, foreign, strict=True):
            report.complaints += await self._touched(cluster, planted)
        for complaint in report.complaints:
            self._write("complaint", text=complaint)
        return report

    # What is played

    async def _suffer(self, incident: Incident) -> None:
        await anyio.sleep(max(0.0, incident.at - self.chaos.now()))
        self._write("fault", **asdict(incident))
        await self.chaos.suffer(incident)
        self._write("over", what=incident.what, on=incident.on)

    async def _submit(self, seconds: float) -> None:
        chance = random.Random(self.seed)
        while self.chaos.now() < seconds:
            body = submission(chance, self.submitted)
            await self._insist(lambda body=body: self.chaos.manager.create(body))  # type: ignore[misc]
            self.submitted += 1
            await anyio.sleep(chance.expovariate(1 / JOB_SECONDS))

    async def _insist(self, call: Callable[[], Any]) -> None:
        """Make a call until an API server has answered it."""
        while True:
            try:
                await call()
            except ApiError as error:
                if error.status in (404, 409):
                    return
                self._write("refused", text=str(error))
            except (aiohttp.ClientError, TimeoutError):
                pass
            else:
                return
            await anyio.sleep(1)

    async def _finish(self, cluster: str, kind: Kind, name: str, uid: str, seconds: float) -> None:
        """Play the nodes: the job runs for so long, and then it has succeeded. Does nothing for one that has gone."""
        client = self.chaos.clients[cluster]

        async def end() -> None:
            body = await client.get(kind, name, NAMESPACE)
            if body["metadata"]["uid"] == uid:
                await complete(client, kind, name)

        if kind == JOB:
            await self._insist(lambda: start_job(client, NAMESPACE, name))
        await anyio.sleep(seconds)
        await self._insist(end)

    async def _until_over(self) -> float | None:
        """Seconds from now until all jobs are over at home and gone from the workers; None if that comes to a halt before."""
        began = newest = self.chaos.now()
        over = 0
        while self.chaos.now() - newest < PATIENCE_SECONDS:
            ended = len(self._judged().over)
            if ended == self.submitted and not await self._left_over():
                return self.chaos.now() - began
            if ended > over:
                over, newest = ended, self.chaos.now()
            await anyio.sleep(1)
        return None

    # What is seen

    async def _follow(
        self, cluster: str, kind: Kind, tasks: anyio.abc.TaskGroup, *, task_status: anyio.abc.TaskStatus[None]
    ) -> None:
        chance = random.Random(f"{self.seed} {cluster} {kind.kind}")
        watch = self.chaos.clients[cluster].watch(kind, NAMESPACE, on_list=task_status.started)
        async for change, body in watch:
            seen = glimpse(self.chaos.now(), cluster, kind.kind, change, body)
            if seen is None or seen.name.startswith(FOREIGN):
                continue
            self.story.append(seen)
            self._write("seen", **asdict(seen))
            if cluster in WORKERS and seen.runs and seen.uid not in self.played:
                self.played.add(seen.uid)
                tasks.start_soon(self._finish, cluster, kind, seen.name, seen.uid, chance.uniform(*RUN_SECONDS))

    async def _follow_lease(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        async for _, body in self.chaos.manager.watch(LEASE, objects.KUEUE_NAMESPACE, on_list=task_status.started):
            replica = (body["spec"].get("holderIdentity") or "").partition("_")[0]
            if not self.terms or self.terms[-1].replica != replica:
                self.terms.append(Term(self.chaos.now(), replica))
                self._write("leads", replica=replica)

    async def _tell_all_along(self) -> None:
        while True:
            await anyio.sleep(TELL_SECONDS)
            now = self._judged()
            faulty = ", ".join(f"{each.what} {each.on}" for each in self.chaos.now_faulty)
            leader = self.terms[-1].replica if self.terms else ""
            self.tell(
                f"{self.chaos.now():7.1f} s  {len(now.over)} of {self.submitted} jobs are over; {leader or 'nobody'} leads; "
                f"{faulty or 'no fault now'}"
            )
            for complaint in now.complaints[self.told :]:
                self.tell(f"COMPLAINT  {complaint}")
            self.told = len(now.complaints)

    def _judged(self) -> Judgement:
        return judge(self.story, self.chaos.closed, self.terms, lost_after=LOST_AFTER)

    def _write(self, event: str, **fields: Any) -> None:
        line = {"second": round(self.chaos.now(), 3), "event": event, **fields}
        self.file.write(json.dumps(line, default=str) + "\n")
        self.file.flush()

    # What is judged in the end

    def _report(self, finished_after: float | None) -> Report:
        judgement = self._judged()
        faults = Counter(named(incident) for incident in self.incidents)
        replicas = [self.chaos.kept[replica] for replica in REPLICAS]
        restarts = sum(kept.ends.total() for kept in replicas)
        memory = memory_of([kept.memory for kept in replicas])
        terms = len([term for term in self.terms if term.replica])
        complaints = list(judgement.complaints)
        if finished_after is None:
            complaints.append(f"{self.submitted - len(judgement.over)} of {self.submitted} jobs are not over")
        return Report(
            self.seed,
            self.minutes,
            faults,
            self.submitted,
            judgement,
            terms,
            restarts,
            memory,
            finished_after,
            complaints,
        )

    def _own_ends(self) -> Iterator[str]:
        """Replicas that ended in a way in which none should."""
        for name in REPLICAS:
            for code, times in self.chaos.kept[name].ends.items():
                if code not in EXPECTED_ENDS:
                    yield f"{name} ended {times} times by itself with exit code {code}"

    def _log_errors(self) -> Iterator[str]:
        """What the replicas logged as errors: what happens outside is none."""
        for name in REPLICAS:
            for line in (self.chaos.folder / f"{name}.log").read_text(errors="replace").splitlines():
                entry: dict[str, Any] = {}
                with suppress(ValueError):
                    entry = json.loads(line)
                if entry.get("level") in ("error", "critical") or line.startswith("Traceback"):
                    yield f"{name} logged {line[:300]}"

    async def _left_over(self) -> list[str]:
        """What of our jobs is still on workers."""
        found = []
        for worker in WORKERS:
            for kind in (JOB, JOBSET, WORKLOAD):
                try:
                    bodies = await self.chaos.clients[worker].list(kind, NAMESPACE, labels=f"{ORIGIN}=multikueue")
                except OUTSIDE as error:
                    found.append(f"{worker} does not answer: {error!r}")
                    continue
                names = [body["metadata"]["name"] for body in bodies]
                found += [f"{name} is left on {worker}" for name in names if not name.startswith(FOREIGN)]
        return found

    async def _plant(self, cluster: str) -> Mapping[str, object]:
        """Objects of others, some with marks that look like ours; what they are."""
        for number, labels in enumerate(FOREIGN_LABELS):
            await self.chaos.clients[cluster].apply(
                objects.job(f"{FOREIGN}-{number}", NAMESPACE, queue=None, labels=labels)
            )
        return await self._foreign(cluster)

    async def _foreign(self, cluster: str) -> Mapping[str, object]:
        bodies = await self.chaos.clients[cluster].list(JOB, NAMESPACE)
        return {
            meta["name"]: (meta["uid"], meta["generation"], meta.get("labels"), meta.get("annotations"))
            for meta in (body["metadata"] for body in bodies)
            if meta["name"].startswith(FOREIGN)
        }

    async def _touched(self, cluster: str, before: Mapping[str, object]) -> list[str]:
        now = await self._foreign(cluster)
        return [
            f"{name} on {cluster} was touched: {was} is {now.get(name)}"
            for name, was in before.items()
            if now.get(name) != was
        ]


FOREIGN = "foreign"
FOREIGN_LABELS: Sequence[Mapping[str, str]] = ({}, {ORIGIN: "somebody"}, {ORIGIN: "multikueue"})
