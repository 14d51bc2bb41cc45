"""A real server and the sandbox's, asked the same at random, answer the same. It is collected where there is a real one."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.contract import sandbox
from tests.contract.builders import namespace, unique
from tests.contract.chance import Chance, Step
from tests.contract.server import Answer, Server
from tests.contract.space import Collection, Space, needs

pytestmark = pytest.mark.anyio

STEPS = 150

OWN = {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields"}
"""What each server makes up by itself. That it is there is compared, and of managed fields what is in them."""

UID = re.compile("-".join(f"[0-9a-f]{{{length}}}" for length in (8, 4, 4, 4, 12)))

OTHERWISE = {4, 6, 7}
"""Seeds that come to what Kubernetes 1.35 does otherwise: changes of suspended jobs."""


@pytest.mark.parametrize("seed", range(8))
async def test_the_same_calls_have_the_same_answers(server: Server, seed: int) -> None:
    if seed in OTHERWISE:
        await needs(server, 36)
    chance, name = Chance(seed), unique("alike")
    async with sandbox.within_process() as other:
        spaces = [await new_space(each, name) for each in (server, other)]
        memories = [Memory(), Memory()]
        history: list[Step] = []
        for _ in range(STEPS):
            step = chance.step()
            history.append(step)
            answers = [await step.take(space) for space in spaces]
            real, simulated = [
                (*told(answer), memory.is_news(step, answer)) for answer, memory in zip(answers, memories, strict=True)
            ]
            assert simulated == real, "\n".join(("after", *story(history), *differences(real, simulated)))


async def new_space(server: Server, name: str) -> Space:
    await Collection(server, "/api/v1/namespaces").made(namespace(name))
    return Space(server, name)


def story(history: list[Step]) -> list[str]:
    """The last steps that were about the same object."""
    last = history[-1]
    return [str(step) for step in history if (step.kind, step.name) == (last.kind, last.name)][-6:]


def differences(real: Any, simulated: Any, path: str = "$") -> list[str]:
    if isinstance(real, dict) and isinstance(simulated, dict):
        names = sorted(real.keys() | simulated.keys())
        return [each for name in names for each in differences(real.get(name), simulated.get(name), f"{path}.{name}")]
    if isinstance(real, tuple) and isinstance(simulated, tuple) and len(real) == len(simulated):
        parts = enumerate(zip(real, simulated, strict=True))
        return [each for index, (one, other) in parts for each in differences(one, other, f"{path}[{index}]")]
    return [] if real == simulated else [f"{path}: {real} on the real one, {simulated} on the sandbox's"]


class Memory:
    """The versions that objects had when a server last told of them."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str], str] = {}

    def is_news(self, step: Step, answer: Answer) -> bool:
        """Whether the answer tells of another version than the one before."""
        version: str = answer.body["metadata"].get("resourceVersion", "")
        # A job's first change is one even if it changes nothing.
        if "dryRun" in step.query or step.kind == "jobs" or not version:
            return False
        before = self._versions.get((step.kind, step.name))
        self._versions[step.kind, step.name] = version
        return before != version


def told(answer: Answer) -> tuple[Any, ...]:
    """What two servers must have in common of an answer."""
    body = json.loads(UID.sub("uid", json.dumps(answer.body)))
    if body["kind"] != "Status":
        return answer.status, {**body, "metadata": common(body["metadata"])}
    causes = body.get("details", {}).get("causes", [])
    # Paths that begin with a dot come from a second look, at the scale; `<nil>` says that there was no second one.
    fields = {cause["field"] for cause in causes if cause["field"][0] not in ".<"}
    return answer.status, body["status"], body.get("reason", ""), fields


def common(metadata: Any) -> Any:
    kept = {name: (name if name in OWN else value) for name, value in metadata.items()}
    return kept | {"managedFields": owned(metadata.get("managedFields", []))}


def owned(entries: list[Any]) -> Any:
    """Who owns what below the metadata, in no order."""
    spec = [
        (entry["manager"], entry["operation"], entry.get("subresource", ""), fields)
        for entry in entries
        if (fields := {name: value for name, value in entry["fieldsV1"].items() if name != "f:metadata"})
    ]
    # Whether something is told of a part as a whole depends on what Go's types always write.
    told = [re.sub(r'"\.": \{\}(, )?', "", json.dumps(each, sort_keys=True)) for each in spec]
    return sorted(each for each in told if '{"f:spec": {}}' not in each)
