"""The code speaks the language of Kueue, Kubernetes and controller-runtime, where they have a word (docs/glossary.md)."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.files import DOCS, ROOT
from tests.project.test_citations import texts

GONE = {
    "Act": "Follower",
    "Answer": "NominationResult",
    "Aside": "DeadlinePool",
    "BATCH_PLACING": "BATCH_POD_SET_INFO",
    "Backlog": "QueueManager",
    "Breach": "Violation",
    "Bystander": "Enqueuer",
    "Caretaker": "ClusterControllers",
    "Chosen": "LoadedStrategy",
    "Company": "ReflectorGroup",
    "Conflicting": "BadPodSetInfo",
    "Crowd": "EquivalenceClass",
    "Crowded": "PoolSaturated",
    "Deeds": "FaultInjector",
    "Elected": "LeaderElector",
    "Face": "FrontEnd",
    "Fading": "UsageDecay",
    "Figures": "StateCollector",
    "Gate": "AuthorizationFilter, AccessReviewer",
    "HIDDEN": "FORBIDDEN",
    "Half": "WorkloadHeap",
    "History": "ConsumedResources",
    "Holding": "Reservation",
    "Holdings": "Reservations",
    "Kin": "RelatedObjects",
    "Lack": "WatchFailure",
    "Laws": "Invariants",
    "Misdeeds": "AdversaryInjector",
    "Nowhere": "NoQueues",
    "Offers": "CandidatesByQueue",
    "Ordinary": "DefaultAdapter",
    "Overdue": "DeadlineExceeded",
    "Patience": "WaitForPodsReady",
    "Placing": "PodSetInfoWriter",
    "Ration": "ExplanationRateLimiter",
    "STAYING": "SLICE_PINNED",
    "STAY_LOST": "SLICE_PIN_LOST",
    "SUCCEEDING": "SLICE_TOO_EARLY",
    "Scene": "WorkloadSession",
    "Sight": "WatchScope",
    "Sighting": "Observation",
    "Site": "ClusterHandle",
    "Succession": "SliceReplacements",
    "Surroundings": "LimitsByNamespace, ProcessEnvironment",
    "TURNED_DOWN": "DECLINED_BY_ALL",
    "Tale": "Trace",
    "Touch": "Enqueuer",
    "Touched": "Enqueuer",
    "Troubles": "FaultLog",
    "Turns": "AdmissionFairSharingQueue",
    "Waiting": "PendingWorkload",
    "Witness": "RunRecorder",
    "_Lot": "_CandidateGroup",
    "asked_in_vain": "probe_failed",
    "asleep": "inadmissible",
    "awake": "active",
    "blame_queue": "check_queue_problem",
    "blind": "failed_namespaces",
    "blindness": "namespace_failure",
    "borrows_any": "is_borrowing",
    "borrows_with": "is_borrowing_with",
    "breach": "violation",
    "campaign": "batch",
    "caretaker": "controllers",
    "consult": "call_strategy",
    "consulted": "with_nomination",
    "deeds": "fault injector",
    "departure": "eviction_rank",
    "errand": "task",
    "face": "front end",
    "furnish": "apply_fixtures",
    "gives_up": "is_given_up",
    "gives_up_at": "give_back_at",
    "gives_up_for": "give_back_message",
    "gives_way": "may_be_preempted",
    "goes_round": "is_repeating",
    "going_order": "candidate_order",
    "heed_deactivation": "evict_if_deactivated",
    "heed_gates": "check_gates",
    "heed_lateness": "evict_if_pods_are_late",
    "heed_preemption": "evict_if_preempted",
    "heed_rejection": "deactivate_if_rejected",
    "heed_retry": "evict_if_retried",
    "heirlooms": "of_earlier_slices",
    "hidden": "forbidden, unreadable",
    "holdings": "reservations",
    "hush": "mark_inadmissible",
    "in_vain": "last_failed_probe",
    "is_hidden": "is_unreadable",
    "job_ended": "has_job_ended",
    "job_may_be_copied": "may_copy_job",
    "job_runs": "is_job_running",
    "kin": "related, relatives",
    "laws": "invariants",
    "leaves_out": "may_have_left_out",
    "line_up": "add_or_update",
    "maybe_job": "is_in_doubt",
    "minds_admission_gates": "has_admission_gates",
    "minds_pods": "should_wait_for_pods",
    "misdeeds": "adversary injector",
    "nobody_dispatches": "is_never_dispatched",
    "on_garbage": "on_undecodable",
    "one_preempts": "is_preemption_sequential",
    "others_evict": "has_life",
    "others_ready": "is_otherwise_ready",
    "overruled": "_ignored_placement",
    "parks_alike": "has_equivalence_classes",
    "patience_of": "give_back_after_of",
    "placed_for": "pod_set_info_of",
    "placing": "pod_set_info",
    "ration": "rate_limiter",
    "report_garbage": "report_undecodable",
    "rouse": "requeue_inadmissible",
    "rules_out": "lacks",
    "runs_here": "may_run",
    "runs_on": "is_running_on",
    "sight": "watch_scope",
    "stir": "requeue",
    "succession": "slice replacements",
    "surroundings": "environment",
    "takes_turns": "is_usage_based",
    "tells_of_checks": "has_check_messages",
    "told_now": "is_about_new_relative",
    "witness": "recorder",
    "zero_is_nothing": "is_zero_ignored",
}
"""Words of our own, and what is said now."""

SHARED = {
    "AccessProvider": "an access provider of a ClusterProfile, and the setting that says how to run it",
    "CreateWorkload": "of a copy on a worker, and of a job's own Workload",
    "DeleteJob": "on a worker, and on the manager cluster",
    "DeleteWorkload": "of a copy on a worker, and of a job's own Workload",
    "Fleet": "the public value for strategies, and the one with what only decisions need",
    "PatchJob": "on a worker, and on the manager cluster",
    "Placement": "OCM's, and what a strategy sees of it",
    "Runtimes": "the protocol, and what implements it",
    "State": "the store's, and the state of one worker for a workload",
    "Transformation": "the setting, and the rule made of it",
    "WorkQueues": "the protocol, and what implements it",
    "Workload": "Kueue's, and what a strategy sees of it",
}
"""Names of two public classes of the manager, and what both have in common."""

UNUSUAL = re.compile(
    r"(?<![A-Za-z])(mend(s|ed|ing)?|h(e|is|im|imself))(?![A-Za-z])|\b(anew|shall|hence|thereby|upon)\b"
    r"|\b(in vain|at no need|for lack of|as yet)\b",
    re.IGNORECASE,
)
"""Words that a reader of Kubernetes' documentation does not meet there, and pronouns of men for whoever it is."""

ARCHAIC = re.compile(
    r"\b(for ever|save (on|that|those|for)|in no line|let be|thus|albeit|lest|ought|likewise to|nought|amidst|whilst|of old)\b"
    r"|\b(anyhow|eldest|dearest|dearer|fares?|of late|for want of|in (its|their) stead|whence|(lives|life) of its own)\b",
    re.IGNORECASE,
)
"""Turns that are rare in plain technical English: documents, commands, settings, answers, and comments."""

VAGUE = re.compile(r"\b(somebody|whoever|anybody|nobody|perhaps|heed(s|ed)?|be it|tells of)\b", re.IGNORECASE)
"""What leaves open who is meant, in comments and docstrings: name the program, the user or the object instead."""

BESIDE = ("testbed", "benchmarks", "release", "tests")
CODE = (
    "multikueue",
    "strategies/multikueue_strategies",
    "console/src/multikueue_console",
    "fakekube/src/fakekube",
    "simulator/src/multikueue_simulator",
)
FILES = [path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))]
TEXTS = [
    path
    for path in (*DOCS, ROOT / "Makefile", *FILES, *(p for f in BESIDE for p in sorted((ROOT / f).rglob("*.py"))))
    if path != Path(__file__)
]


UNEDITED = ("registration", "workload/nomination", "workload/handlers/nominating.py")
"""Rooms of the manager whose comments are still as they were."""

EDITED = [
    path
    for folder in CODE[:2]
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not str(path.relative_to(ROOT / folder)).startswith(UNEDITED)
] + sorted((ROOT / "fakekube/src").rglob("*.py"))

READ = [
    *DOCS,
    *(p for f in ("cli", "client", "settings", "answers") for p in sorted((ROOT / "multikueue" / f).rglob("*.py"))),
]


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


def test_a_class_of_the_manager_shares_its_name_with_no_other() -> None:
    trees = [ast.parse(path.read_text()) for folder in CODE[:2] for path in sorted((ROOT / folder).rglob("*.py"))]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1 and not name.startswith("_")} == set(SHARED)


def test_texts_use_words_of_today() -> None:
    found = {str(path.relative_to(ROOT)): UNUSUAL.search(path.read_text()) for path in TEXTS}
    assert {path: match[0] for path, match in found.items() if match} == {}


def test_what_users_read_has_no_archaic_turns() -> None:
    found = {str(path.relative_to(ROOT)): ARCHAIC.search(path.read_text()) for path in READ}
    assert {path: match[0] for path, match in found.items() if match} == {}


@pytest.mark.parametrize("words", [VAGUE, ARCHAIC], ids=["vague", "archaic"])
def test_comments_are_in_plain_words(words: re.Pattern[str]) -> None:
    found = {path: words.search(" ".join(texts(path.read_text()))) for path in EDITED}
    assert {str(path.relative_to(ROOT)): match[0] for path, match in found.items() if match} == {}


@pytest.mark.parametrize(
    "text", ["It waits for ever.", "all save those", "Let be.", "what it used of late", "it goes anyhow"]
)
def test_archaic_turns_are_found(text: str) -> None:
    assert ARCHAIC.search(text)


@pytest.mark.parametrize(
    "text", ["save the file", "the safest way", "it waits forever", "of latest", "any how-to", "welfare"]
)
def test_plain_words_are_none(text: str) -> None:
    assert not ARCHAIC.search(text)


@pytest.mark.parametrize(
    "text", ["Mend it.", "def test_it_is_mended():", "the user and his jobs", "starts anew", "it shall"]
)
def test_other_words_are_found(text: str) -> None:
    assert UNUSUAL.search(text)


@pytest.mark.parametrize("text", ["recommended", "the history of this", "an amended one", "shallow", "hypothesis"])
def test_parts_of_words_are_not(text: str) -> None:
    assert not UNUSUAL.search(text)
