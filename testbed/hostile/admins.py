"""Mistakes of an admin."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import yaml

from testbed import objects
from testbed.hostile.case import Account, Case, Harm, Play
from testbed.hostile.stage import HOSTILE, INNOCENT, LIAR, Stage
from testbed.kubeconfig import dump
from testbed.objects import ADMISSION_CHECK, CLUSTER_QUEUE, MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG, SECRET, Object

__all__ = ["CASES"]

ODD = "odd"
DWELL_SECONDS = 8.0
"""Longer than the interval of the sweep, which deletes a copy that is mistaken for a stray one."""

PASSWORD = "s3cret-of-the-proxy"


async def introduced(stage: Stage, config: bytes) -> Account:
    """Register a cluster `odd` with that kubeconfig until the end of the turn."""
    stage.undo.push_async_callback(stage.manager.delete, SECRET, ODD, objects.KUEUE_NAMESPACE)
    stage.undo.push_async_callback(stage.manager.delete, MULTIKUEUE_CLUSTER, ODD)
    await stage.introduce(ODD, config)
    await anyio.sleep(2)
    return lambda: stage.cluster_says(ODD)


async def second_name(stage: Stage) -> Account:
    """The bystander's worker under a second name, which no MultiKueueConfig has."""
    account = await introduced(stage, dump(stage.plane(stage.bystander[0]).kubeconfig()))
    await anyio.sleep(DWELL_SECONDS)
    return account


async def second_name_in_use(stage: Stage) -> Account:
    """The bystander's worker under a second name, which its MultiKueueConfig has too."""
    config = await stage.manager.get(MULTIKUEUE_CONFIG, INNOCENT)
    before, more = config["spec"], {"spec": {"clusters": [*config["spec"]["clusters"], ODD]}}
    stage.undo.push_async_callback(stage.manager.patch, MULTIKUEUE_CONFIG, INNOCENT, {"spec": before})
    await stage.manager.patch(MULTIKUEUE_CONFIG, INNOCENT, more)
    return await second_name(stage)


async def no_check(stage: Stage) -> Account:
    """The check is taken out of a ClusterQueue whose job runs on a worker."""
    await stage.manager.create(objects.job("running", HOSTILE, suspend=False))
    worker = await stage.runs("running")
    queue = await stage.manager.get(CLUSTER_QUEUE, HOSTILE)
    stage.undo.push_async_callback(
        stage.manager.patch,
        CLUSTER_QUEUE,
        HOSTILE,
        {"spec": {"admissionChecksStrategy": queue["spec"]["admissionChecksStrategy"]}},
    )
    await stage.manager.patch(CLUSTER_QUEUE, HOSTILE, {"spec": {"admissionChecksStrategy": None}})
    await anyio.sleep(DWELL_SECONDS)

    async def account() -> str:
        if not await stage.runs_still("running", worker):
            raise Harm("the job that ran in it was ended")
        return "its job runs on"

    return account


def kubeconfig(change: str = "", **cluster: object) -> Play:
    """An honest worker's kubeconfig with `change` at its end and these fields of its cluster."""

    async def play(stage: Stage) -> Account:
        config = stage.plane(next(iter(stage.honest))).kubeconfig()
        config["clusters"][0]["cluster"].update(cluster)
        return _keeping_the_secret(stage, await introduced(stage, dump(config) + change.encode()))

    return play


def _keeping_the_secret(stage: Stage, account: Account) -> Account:
    """The account, but Harm if the password is in it or in the log."""

    async def checked() -> str:
        said = await account()
        if PASSWORD in said or PASSWORD in stage.process.log.read_text(errors="replace"):
            raise Harm("a password is shown")
        return said

    return checked


async def aliases(stage: Stage) -> Account:
    """47 KiB of YAML that name one list 2,000 times."""
    long = "[" + ",".join(f"v{number}" for number in range(4000)) + "]"
    again = "\n".join(f"      k{number}: *a" for number in range(2000))
    text = yaml.safe_dump(stage.plane(next(iter(stage.honest))).kubeconfig(), sort_keys=False)
    extra = f"    as: x\n    as-user-extra:\n      k: &a {long}\n{again}\n"
    return await introduced(stage, text.replace("  user:\n", f"  user:\n{extra}", 1).encode())


def config_with(**spec: object) -> Play:
    """Give the MultiKueueConfig of the tenant's queue this spec, and submit a job."""

    async def play(stage: Stage) -> Account:
        before: Object = (await stage.manager.get(MULTIKUEUE_CONFIG, HOSTILE))["spec"]
        stage.undo.push_async_callback(stage.manager.patch, MULTIKUEUE_CONFIG, HOSTILE, {"spec": before})
        await stage.manager.patch(MULTIKUEUE_CONFIG, HOSTILE, {"spec": spec})
        await stage.manager.create(objects.job(ODD, HOSTILE, suspend=False))
        return lambda: stage.became(ODD)

    return play


def check_with(**annotations: str) -> Play:
    """Annotate the AdmissionCheck of the tenant's queue, with a strategy for example, and submit a job."""

    async def play(stage: Stage) -> Account:
        named = {f"multikueue.dev/{key}": value for key, value in annotations.items()}
        none = dict.fromkeys(named)
        stage.undo.push_async_callback(
            stage.manager.patch, ADMISSION_CHECK, HOSTILE, {"metadata": {"annotations": none}}
        )
        await stage.manager.patch(ADMISSION_CHECK, HOSTILE, {"metadata": {"annotations": named}})
        await stage.manager.create(objects.job(ODD, HOSTILE, suspend=False))
        return lambda: stage.became(ODD)

    return play


def queue_with(amount: str) -> Play:
    """Create a ClusterQueue with that quota of CPUs."""

    async def play(stage: Stage) -> str:
        stage.undo.push_async_callback(stage.manager.delete, CLUSTER_QUEUE, ODD)
        await stage.manager.create(objects.cluster_queue(ODD, quota={"cpu": amount}))
        await anyio.sleep(1)
        return "taken in" if await stage.vitals.answers(timeout=5) else "taken in, and nobody answers"

    return play


def _cases(*rows: tuple[str, Play]) -> Sequence[Case]:
    return [Case("admin", what, play) for what, play in rows]


CASES = _cases(
    ("a worker under a second name", second_name),
    ("a worker under a second name, in the config", second_name_in_use),
    ("the check is taken out of a ClusterQueue", no_check),
    ("a kubeconfig whose proxy has a password", kubeconfig(**{"proxy-url": f"http://u:{PASSWORD}@127.0.0.1:9"})),
    ("a kubeconfig of 47 KiB of YAML aliases", aliases),
    ("a kubeconfig that is no YAML", kubeconfig("\t}{")),
    ("a kubeconfig with 900 KiB behind it", kubeconfig("x: " + "y" * 900_000)),
    ("a config without the worker that has the job", config_with(clusters=[LIAR])),
    ("a config with clusters that are not there", config_with(clusters=["nowhere", "x" * 200])),
    ("a check with a strategy that is not there", check_with(strategy="nobody")),
    (
        "a check whose options are nested 5,000 deep",
        check_with(
            **{
                "strategy": "incremental",
                "strategy-options": '{"step":' * 5000 + "1" + "}" * 5000,
            }
        ),
    ),
    ("a ClusterQueue with a quota of 5,000 digits", queue_with("9" * 5000)),
    ("a ClusterQueue with a quota of 1e999999999", queue_with("1e999999999")),
)
