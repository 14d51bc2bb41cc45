"""Our stand-in for Kueue's webhooks against a worker with a real Kueue: the same verdicts."""

from __future__ import annotations

import re

import pytest

from testbed.bed import Testbed, unique
from testbed.client import ApiError, Client, Kind
from tests.real.dialect import judged_otherwise
from tests.real.skipping import needs_kueue
from tests.simulator.refusals_of_kueue import CASES
from tests.simulator.verdicts import Case

pytestmark = [
    pytest.mark.real,
    pytest.mark.anyio,
    pytest.mark.timeout(120),
    needs_kueue("its verdicts are compared with those of the simulated one"),
]

_PROBLEM = re.compile(
    r"(?:^|[ \[])(\w[\w.\[\]]*): (?=Invalid value|Required value|Unsupported value|Duplicate value|Not found)"
)


class Disturbed(Exception):
    """Kueue changed the object before the last step, so that it says nothing about the case."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_a_real_kueue_gives_the_same_verdict(bed: Testbed, case: Case) -> None:
    async with bed.workers[0].client() as client:
        for _ in range(5):
            try:
                assert (await verdict(client, case) == case.refused) != judged_otherwise(case.sentence)
            except Disturbed:
                continue
            return
    pytest.fail("Kueue changed the object each time")


async def verdict(client: Client, case: Case) -> frozenset[str]:
    """The fields that the last step is refused for."""
    kind, name = Kind(case.first["apiVersion"], case.first["kind"]), unique("case")
    namespace = "default" if kind.kind == "Workload" else None
    first = {**case.first, "metadata": {"name": name, **({"namespace": namespace} if namespace else {})}}
    try:
        await client.create(first, dry_run=not case.steps)
        for number, (part, patch) in enumerate(case.steps):
            if number:
                await _undisturbed(client, kind, name, case.steps[number - 1])
            subresource = "status" if part == "status" else None
            await client.patch(kind, name, {part: patch}, namespace, subresource=subresource)
    except ApiError as error:
        assert error.status == 403, error  # noqa: PT017 - any other is no verdict
        return frozenset(_PROBLEM.findall(error.message.split("denied the request: ", 1)[1]))
    finally:
        await client.delete(kind, name, namespace)
    return frozenset()


async def _undisturbed(client: Client, kind: Kind, name: str, step: tuple[str, dict[str, object]]) -> None:
    """What the step before wrote must still be there."""
    part, patch = step
    found = (await client.get(kind, name, "default")).get(part, {})
    if any(found.get(field) != value for field, value in patch.items() if value):
        raise Disturbed
