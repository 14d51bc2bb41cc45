"""The same clusters, known only as contexts of a kubeconfig with client certificates: what `make test-kind` stands on."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from testbed.bed import Testbed
from testbed.contexts import ContextBed, Unsupported
from testbed.kubeconfig import kubeconfig
from testbed.plane import ADMINISTRATORS, ControlPlane
from tests.real.chronicle import Chronicle
from tests.real.harness import Team
from tests.real.skipping import needs_testbed

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(120),
    needs_testbed("here all tests run on contexts"),
]

PARTS = ("clusters", "users", "contexts")


@pytest.fixture(scope="module", name="bed")
def _bed(bed: Testbed) -> Iterator[ContextBed]:
    configs = [_as_kind_writes_it(plane) for plane in (bed.manager, *bed.workers)]
    together = {part: [entry for config in configs for entry in config[part]] for part in PARTS}
    contexts = ContextBed(together, [str(entry["name"]) for entry in together["contexts"]])
    anyio.run(contexts.open)
    yield contexts
    anyio.run(contexts.close)


def _as_kind_writes_it(plane: ControlPlane) -> dict[str, list[dict[str, object]]]:
    certificate = plane.identity.authority.issue("kubernetes-admin", groups=(ADMINISTRATORS,))
    return kubeconfig(plane.url, ca=plane.ca, certificate=certificate, name=f"kind-{plane.name}")


async def test_a_job_runs_through_on_the_clusters_of_a_kubeconfig(crew: Team, history: Chronicle) -> None:
    await crew.submit()
    worker = await crew.runs_on()
    await crew.complete(worker)
    await crew.finished()
    assert not history.marks
    with pytest.raises(Unsupported, match="orders what happens on all clusters"):
        history.first(bool)
