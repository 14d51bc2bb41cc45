"""Workers are cordoned and uncordoned, by their names or by labels."""

from __future__ import annotations

import pytest

from tests.cli.commands.clusters.cordons import cordoned, is_cordoned
from tests.cli.conftest import Run, World
from tests.cli.field import Field


@pytest.mark.anyio
async def test_cordon_and_uncordon(field: Field) -> None:
    done = await field.run("clusters", "cordon", "worker1")
    assert await is_cordoned(field)
    undone = await field.run("clusters", "uncordon", "worker1")
    assert not await is_cordoned(field)
    unknown = await field.run("clusters", "cordon", "worker3")

    assert (done.out, undone.out) == ("worker1 cordoned\n", "worker1 uncordoned\n")
    assert unknown.code == 1
    assert "there is no MultiKueueCluster 'worker3'" in unknown.err


@pytest.mark.parametrize(
    ("words", "marked"),
    [
        (("w2", "w1"), {"w1", "w2"}),
        (("-l", "zone=eu"), {"w2", "w10"}),
        (("--all",), {"w1", "w2", "w10", "other"}),
        (("-l", "zone=none"), set()),
    ],
    ids=["by their names", "by a label", "all of them", "none with that label"],
)
def test_several_workers_are_cordoned_at_once(fleet: World, cli: Run, words: tuple[str, ...], marked: set[str]) -> None:
    done = cli("clusters", "cordon", *words)

    assert (done.code, cordoned(fleet)) == (0, marked)
    assert sorted(done.lines) == sorted(f"{name} cordoned" for name in marked)
    assert done.err == (f"{len(marked)} of {len(marked)} workers cordoned.\n" if marked else "No clusters found.\n")


def test_an_unknown_name_keeps_no_other_from_its_cordon(fleet: World, cli: Run) -> None:
    done = cli("clusters", "cordon", "w1", "w3", "w2")

    assert (done.code, cordoned(fleet)) == (1, {"w1", "w2"})
    assert done.err.splitlines() == [
        "2 of 3 workers cordoned.",
        "error: there is no MultiKueueCluster 'w3'; there are: other, w1, w2, w10",
    ]


@pytest.mark.parametrize("words", [(), ("w1", "--all"), ("w1", "-l", "zone=eu")], ids=["none", "both", "a label too"])
@pytest.mark.parametrize("command", ["cordon", "uncordon", "drain", "show", "remove"])
def test_which_workers_are_meant_must_be_clear(fleet: World, cli: Run, command: str, words: tuple[str, ...]) -> None:
    refused = cli("clusters", command, *words)

    assert refused.code == 2
    assert "names of clusters" in " ".join(refused.err.replace("│", " ").split())
    assert cordoned(fleet) == set()
