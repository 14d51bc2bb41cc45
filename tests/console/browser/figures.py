"""What the console costs, and how soon pages show what happened: `make bench-console`.

The console is a process of its own on a cluster with 50,000 workloads and as many jobs, and 50 pages are open: one in Chromium,
the others as readers of the stream. The API server is in this process, on the same machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any

import aiohttp
import anyio
import typer
from anyio.streams.text import TextReceiveStream
from playwright.async_api import Browser, Page

from benchmarks.meters import cpu_seconds, memory
from fakekube.model.storage import key_of
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue_simulator.serving.serve import USERS, Plan, Sandbox, Served
from multikueue_simulator.world import objects
from tests.console.browser.stage import browser

__all__ = ["told"]

NAMESPACES, QUEUES, CLUSTERS = 40, 4, 9

BEGAN = datetime(2026, 11, 30, 0, tzinfo=UTC)

PER_PERSON = 7
"""Pages that one person has open; a session may have eight."""

CHANGES = 20
"""Workloads whose way to the screen is timed, one after another."""

ROWS = "() => document.querySelectorAll('.tbody .row').length > 10"
WHOLE = "() => document.querySelector('#live b').textContent === 'Live'"


def at(number: int) -> str:
    """A time, another one for each number."""
    return (BEGAN + timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(namespace: str, queue: str, number: int) -> dict[str, Any]:
    body = objects.job(f"job-{number:05}", namespace, queue=queue, cpu=1 + number % 8)
    body["metadata"] |= {"uid": f"00000000-0000-4000-8000-{number:012}", "creationTimestamp": at(number)}
    return body


def workload(made: dict[str, Any], number: int) -> dict[str, Any]:
    """The Workload of the job; of four one waits, one runs and two have finished."""
    meta = made["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    reached = {0: (), 1: ("QuotaReserved", "Admitted")}.get(number % 4, ("QuotaReserved", "Admitted", "Finished"))
    conditions = [
        {
            "type": each,
            "status": "True",
            "reason": each,
            "message": f"{each} in ClusterQueue cq-{number % QUEUES}",
            "lastTransitionTime": at(number + 600 * (place + 1)),
        }
        for place, each in enumerate(reached)
    ]
    status: dict[str, Any] = {"conditions": conditions}
    if reached:
        status["clusterName"] = f"cluster-{number % CLUSTERS}"
        used = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}
        status["admission"] = {"clusterQueue": f"cq-{number % QUEUES}", "podSetAssignments": [used]}
    template = {"spec": made["spec"]["template"]["spec"]}
    return {
        "apiVersion": kinds.WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": {
            "name": f"job-{meta['name']}-{number:05x}",
            "namespace": meta["namespace"],
            "uid": f"00000000-0000-4000-9000-{number:012}",
            "creationTimestamp": meta["creationTimestamp"],
            "ownerReferences": [owner],
            "labels": {"kueue.x-k8s.io/job-uid": meta["uid"]},
        },
        "spec": {
            "queueName": meta["labels"]["kueue.x-k8s.io/queue-name"],
            "podSets": [{"name": "main", "count": 1, "template": template}],
            "priority": number % 3,
            "active": True,
        },
        "status": status,
    }


def put(site: Served, kind: Kind[Any], body: dict[str, Any]) -> None:
    """Into the storage itself, as nobody has time to submit so many."""
    meta = body["metadata"]
    site.cluster.storage.put(f"{kind.plural}.{kind.group}", key_of(meta.get("namespace", ""), meta["name"]), body)


def submit(site: Served, number: int, name: str = "") -> None:
    made = job(f"team-{number % NAMESPACES}", f"queue-{number % QUEUES}", number)
    if name:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        made["metadata"] |= {"name": name, "uid": name, "creationTimestamp": now}
    put(site, kinds.JOBS, made)
    put(site, kinds.WORKLOADS, workload(made, number))


def furnish(site: Served, workloads: int) -> None:
    for number in range(QUEUES):
        put(site, kinds.CLUSTER_QUEUES, objects.cluster_queue(f"cq-{number}", cpu=4000))
        for space in range(NAMESPACES):
            queue = objects.local_queue(f"queue-{number}", f"team-{space}", cluster_queue=f"cq-{number}")
            put(site, kinds.LOCAL_QUEUES, queue)
    for number in range(workloads):
        submit(site, number)


@asynccontextmanager
async def console(kubeconfig: Path) -> AsyncIterator[tuple[str, int]]:
    """The address and the process number of a console for many people."""
    command = [
        sys.executable,
        "-m",
        "multikueue",
        "console",
        "--kubeconfig",
        str(kubeconfig),
        "--login",
    ]
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=None, env=os.environ) as process:
        try:
            assert process.stdout is not None, "it is a pipe"
            yield (await TextReceiveStream(process.stdout).receive()).strip(), process.pid
        finally:
            process.terminate()


async def read(web: aiohttp.ClientSession, url: str, token: str) -> None:
    """One page that is open: read the stream, and throw it away."""
    async with web.get(f"{url}/api/stream", headers={"Authorization": f"Bearer {token}"}) as answer:
        async for _ in answer.content.iter_any():
            pass


async def first_content(chrome: Browser, url: str, token: str) -> tuple[float, Page]:
    """Milliseconds from opening the address of all workloads until rows are on the screen, and that page."""
    context = await chrome.new_context(extra_http_headers={"Authorization": f"Bearer {token}"})
    page = await context.new_page()
    began = perf_counter()
    await page.goto(f"{url}/workloads", wait_until="commit")
    await page.wait_for_function(ROWS, timeout=60_000)
    return 1000 * (perf_counter() - began), page


async def changes(page: Page, site: Served, workloads: int) -> AsyncIterator[float]:
    """Milliseconds from a new workload in the cluster until it is on the screen, on top of all."""
    for each in range(CHANGES):
        name = f"fresh-{each:02}"
        text = f"[...document.querySelectorAll('.tbody .row a')].some((each) => each.textContent.includes('{name}'))"
        await anyio.sleep(1.5)
        began = perf_counter()
        submit(site, workloads + 4 * each, name)
        await page.wait_for_function(f"() => {text}", timeout=30_000)
        yield 1000 * (perf_counter() - began)


async def told(workloads: int, pages: int) -> Iterator[tuple[str, str]]:
    """What was measured, and how much it is."""
    people = [f"person-{number}" for number in range(-(-pages // PER_PERSON))]
    found = []
    with TemporaryDirectory() as folder:
        plan = Plan(workers=0, users={**USERS, **dict.fromkeys(people, USERS["admin"])})
        async with Sandbox(plan, folder=Path(folder)) as sandbox, browser() as chrome, aiohttp.ClientSession() as web:
            site = sandbox["manager"]
            furnish(site, workloads)
            tokens = [site.front_end.kubeconfig(each)["users"][0]["user"]["token"] for each in people]
            began = perf_counter()
            async with console(site.kubeconfig()) as (url, pid), anyio.create_task_group() as tasks:
                found.append(("until the console serves", f"{perf_counter() - began:.1f} s"))
                took, page = await first_content(chrome, url, tokens[0])
                found.append(("first content of a page, while the rest is read", f"{took:.0f} ms"))
                await page.wait_for_function(WHOLE, timeout=300_000)
                for number in range(1, pages):
                    tasks.start_soon(read, web, url, tokens[number // PER_PERSON])
                await anyio.sleep(20)
                found.append(("memory with all pages open", f"{memory(pid).resident:.0f} MiB"))
                await page.context.close()
                times = []
                for _ in range(5):
                    took, page = await first_content(chrome, url, tokens[0])
                    times.append(took)
                    await page.wait_for_function(WHOLE, timeout=60_000)
                    await page.context.close()
                found.append(("first content of a page, median of 5", f"{median(times):.0f} ms"))
                _, page = await first_content(chrome, url, tokens[0])
                await page.wait_for_function(WHOLE, timeout=60_000)
                before = cpu_seconds(pid)
                ways = sorted([each async for each in changes(page, site, workloads)])
                found.append(("a change until it is on the screen, median", f"{median(ways):.0f} ms"))
                found.append(("and nine of ten", f"{ways[len(ways) * 9 // 10 - 1]:.0f} ms"))
                used = (cpu_seconds(pid) - before) / CHANGES
                found.append(("CPU of the console for a change, all pages told", f"{1000 * used:.0f} ms"))
                found.append(("memory at its peak", f"{memory(pid).peak:.0f} MiB"))
                tasks.cancel_scope.cancel()
    return iter(found)


def main(
    workloads: Annotated[int, typer.Option(min=100, help="How many.")] = 50_000,
    pages: Annotated[int, typer.Option(min=1, help="Pages that are open.")] = 50,
) -> None:
    print(f"{workloads:,} workloads, {pages} pages open\n")
    for what, much in anyio.run(told, workloads, pages):
        print(f"{what:50} {much:>10}")


if __name__ == "__main__":
    typer.run(main)
