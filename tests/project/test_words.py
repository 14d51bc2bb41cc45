"""The code speaks the language of Kueue, Kubernetes and controller-runtime, where they have a word (docs/glossary.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.files import ROOT

GONE = {
    "Aside": "DeadlinePool",
    "Breach": "Violation",
    "Company": "ReflectorGroup",
    "Conflicting": "BadPodSetInfo",
    "Crowd": "EquivalenceClass",
    "Crowded": "PoolSaturated",
    "Deeds": "FaultInjector",
    "Elected": "LeaderElector",
    "Fading": "UsageDecay",
    "Figures": "StateCollector",
    "Half": "WorkloadHeap",
    "History": "ConsumedResources",
    "Holding": "Reservation",
    "Holdings": "Reservations",
    "Laws": "Invariants",
    "Misdeeds": "AdversaryInjector",
    "Offers": "CandidatesByQueue",
    "Ordinary": "DefaultAdapter",
    "Overdue": "DeadlineExceeded",
    "STAYING": "SLICE_PINNED",
    "STAY_LOST": "SLICE_PIN_LOST",
    "SUCCEEDING": "SLICE_TOO_EARLY",
    "Succession": "SliceReplacements",
    "Surroundings": "LimitsByNamespace, ProcessEnvironment",
    "TURNED_DOWN": "DECLINED_BY_ALL",
    "Tale": "Trace",
    "Touch": "Enqueuer",
    "Troubles": "FaultLog",
    "Turns": "AdmissionFairSharingQueue",
    "Waiting": "PendingWorkload",
    "Witness": "RunRecorder",
    "asleep": "inadmissible",
    "awake": "active",
    "breach": "violation",
    "deeds": "fault injector",
    "departure": "eviction_rank",
    "errand": "task",
    "gives_way": "may_be_preempted",
    "going_order": "candidate_order",
    "heirlooms": "of_earlier_slices",
    "holdings": "reservations",
    "hush": "mark_inadmissible",
    "in_vain": "last_failed_probe",
    "laws": "invariants",
    "line_up": "add_or_update",
    "misdeeds": "adversary injector",
    "rouse": "requeue_inadmissible",
    "succession": "slice replacements",
    "surroundings": "environment",
    "takes_turns": "is_usage_based",
    "witness": "recorder",
}
"""Words of our own, and what is said now."""

CODE = ("multikueue", "simulator/src/multikueue_simulator")
FILES = [path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))]


def _identifiers(tree: ast.AST) -> Iterator[str]:
    """All names in a file: of what is defined, imported, passed and used."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.keyword(arg=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.alias(name=name, asname=other):
                yield from name.split(".")
                yield other or ""
            case ast.ImportFrom(module=str(module)):
                yield from module.split(".")


def _gone(path: Path, source: str) -> set[str]:
    return {path.stem, *_identifiers(ast.parse(source))} & GONE.keys()


def test_words_that_are_gone_stay_gone() -> None:
    found = {str(path.relative_to(ROOT)): _gone(path, path.read_text()) for path in FILES}
    assert {path: {word: GONE[word] for word in words} for path, words in found.items() if words} == {}


@pytest.mark.parametrize(
    "source",
    [
        "class Crowd: ...",
        "def rouse(): ...",
        "async def hush(): ...",
        "def run(laws): ...",
        "run(laws=1)",
        "it.awake",
        "from a.b import Holding",
        "from a.deeds import Deed",
        "import witness",
        "import it as asleep",
    ],
)
def test_wherever_they_are_said(source: str) -> None:
    assert _gone(Path("it.py"), source)


def test_a_file_is_not_called_so_either() -> None:
    assert _gone(Path("witness.py"), "") == {"witness"}


def test_other_words_are_free() -> None:
    assert _gone(Path("it.py"), "class Crowds:\n    def hush_money(self, lawsuit): ...") == set()
