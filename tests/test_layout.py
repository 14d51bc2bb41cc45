"""The tests mirror the rooms, each room says what it is, and what a room exports is there."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TREES = {
    "multikueue": (ROOT / "multikueue", Path()),
    "multikueue_strategies": (ROOT / "strategies/multikueue_strategies", Path("strategies")),
    "fakekube": (ROOT / "fakekube/src/fakekube", Path("fakekube")),
    "multikueue_console": (ROOT / "console/src/multikueue_console", Path("console")),
    "multikueue_simulator": (ROOT / "simulator/src/multikueue_simulator", Path("simulator")),
}
"""Our packages by import name: where each is, and where in `tests` its tests are."""

BESIDE = ("tests", "testbed", "benchmarks", "release")
"""Folders of code that no package has."""

LONGEST = 400
"""Lines of a file that needs no reason to be one file."""

MODULES = sorted(
    Path(package, path.relative_to(tree)) for package, (tree, _) in TREES.items() for path in tree.rglob("*.py")
)
ROOMS = [path for path in MODULES if path.name == "__init__.py"]
PLAIN = [path for path in MODULES if not path.name.startswith("__")]

ELSEWHERE: dict[str, str] = {
    "multikueue/answers/answer.py": "answers/test_situations.py",
    "multikueue/api/multikueue/ocm.py": "registration/test_members.py",
    "multikueue/controllers/fleet/inventories.py": "controllers/fleet/test_membership.py",
    "multikueue/answers/fix.py": "answers/test_situations.py",
    "multikueue/answers/never.py": "answers/test_situations.py",
    "multikueue/answers/obstacle.py": "answers/test_situations.py",
    "multikueue/answers/passing.py": "answers/test_situations.py",
    "multikueue/answers/past.py": "answers/test_situations.py",
    "multikueue/answers/seen.py": "answers/test_situations.py",
    "multikueue/cli/workload/seen.py": "answers/test_namespace_user.py",
    "multikueue/cli/terminal/manifests.py": "cli/commands/test_convert.py",
    "multikueue/cli/access/worker_clusters.py": "cli/commands/clusters/test_group.py",
    "multikueue/cli/access/contexts.py": "cli/access/test_completion.py",
    "multikueue/cli/commands/clusters/sides.py": "cli/commands/clusters/test_group.py",
    "multikueue/cli/commands/queues/naming.py": "cli/commands/queues/test_group.py",
    "multikueue/cli/commands/workloads/cluster_view.py": "cli/commands/workloads/test_group.py",
    "multikueue/cli/workload/deletion.py": "cli/commands/workloads/test_actions.py",
    "multikueue/cli/workload/log_choice.py": "cli/commands/workloads/test_logs.py",
    "multikueue/cli/workload/submission.py": "cli/commands/test_submit.py",
    "multikueue/cli/workload/session.py": "cli/commands/workloads/test_pods.py",
    "multikueue/controllers/workers/connection/worker_credentials.py": "controllers/workers/connection/test_connection.py",
    "multikueue/controllers/workers/connection/refused_calls.py": "controllers/workers/connection/test_outbox.py",
    "multikueue/controllers/workloads/jobs.py": "controllers/workloads/test_main_job.py",
    "multikueue/dispatch/remote.py": "dispatch/test_attempts.py",
    "multikueue/workload/case.py": "workload/test_decide.py",
    "multikueue/workload/handlers/outcome.py": "workload/test_decide.py",
    "multikueue/workload/life/eviction.py": "workload/life/test_lifecycle_evictions.py",
    "multikueue/workload/life/explanation.py": "workload/life/test_lifecycle.py",
    "multikueue/workload/life/life.py": "workload/life/test_lifecycle.py",
    "multikueue/workload/life/reservation.py": "workload/life/test_lifecycle.py",
    "multikueue/workload/life/rules.py": "workload/life/test_lifecycle.py",
    "multikueue/workload/phases.py": "workload/test_decide.py",
    "multikueue/store/job_view.py": "controllers/workloads/test_main_job.py",
    "multikueue/store/life_facts.py": "store/test_views.py",
    "multikueue/store/event_handlers/changes.py": "store/event_handlers/test_triggers.py",
    "multikueue/store/event_handlers/concerned.py": "store/event_handlers/test_triggers.py",
    "multikueue/jobs/kinds/declared/declaration.py": "jobs/kinds/declared/test_adapter.py",
    "multikueue/jobs/reconciler/updates.py": "jobs/reconciler/test_decide.py",
    "multikueue/quota/queueing/requeueing.py": "quota/queueing/test_queue_manager.py",
    "multikueue/quota/workload/ends.py": "quota/scheduler/test_backfill.py",
    "multikueue/web/serving.py": "web/test_certificates.py",
    "multikueue_console/watch/fleet_watch.py": "console/web/test_server.py",
    "multikueue_console/commands/acts.py": "console/web/test_server.py",
    "multikueue_console/web/past_use.py": "console/web/test_server.py",
    "multikueue_console/web/rights.py": "console/web/test_server.py",
    "multikueue_console/web/stream.py": "console/web/test_server.py",
    "multikueue_console/web/workload_pages.py": "console/web/test_server.py",
    "multikueue_console/model/objects.py": "console/model/test_workloads.py",
    "multikueue_console/model/lines.py": "console/model/test_workloads.py",
    "multikueue_console/model/clusters.py": "console/model/test_workloads.py",
    "multikueue_console/model/tallies.py": "console/model/test_workloads.py",
    "multikueue_console/model/fleet.py": "console/model/test_workloads.py",
    "multikueue_console/model/stories.py": "console/model/test_attempts.py",
    "multikueue_simulator/world/processes.py": "simulator/world/test_world.py",
    "multikueue_simulator/simulation/faults/odd_objects.py": "simulator/simulation/faults/test_adversary_injector.py",
    "fakekube/server/requests/answers.py": "fakekube/server/verbs/test_reads.py",
    "fakekube/server/verbs/calls.py": "fakekube/server/verbs/test_writes.py",
    "fakekube/server/requests/conversion.py": "fakekube/builtins/test_kinds.py",
    "fakekube/builtins/rules/core.py": "fakekube/builtins/test_kinds.py",
    "fakekube/builtins/rules/groups.py": "fakekube/builtins/test_kinds.py",
    "fakekube/builtins/rules/job_status.py": "fakekube/builtins/rules/test_jobs.py",
    "fakekube/server/verbs/places.py": "fakekube/server/verbs/test_writes.py",
    "fakekube/server/requests/selection.py": "fakekube/server/verbs/test_reads.py",
    "fakekube/server/server.py": "fakekube/test_cluster.py",
    "fakekube/server/verbs/subresources.py": "fakekube/server/test_api.py",
}
"""Modules that are tested through another one, on purpose: module to the file that tests it."""


def source(path: Path) -> Path:
    tree, _ = TREES[path.parts[0]]
    return tree.joinpath(*path.parts[1:])


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(source(path).read_text())


def decides(path: Path) -> bool:
    """Whether there is anything to test: a module of declarations alone has no function with a branch or a loop."""
    functions = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    branches = (ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.Match, ast.comprehension, ast.AsyncFor)
    return any(isinstance(node, branches) for function in functions for node in ast.walk(function))


def expected_test(path: Path) -> Path:
    if path.as_posix() in ELSEWHERE:
        return Path("tests") / ELSEWHERE[path.as_posix()]
    _, tests = TREES[path.parts[0]]
    return Path("tests", tests, *path.parts[1:-1], f"test_{path.name}")


def says_what_it_is(path: Path) -> bool:
    text = ast.get_docstring(parsed(path)) or ""
    return text.partition("\n")[0].endswith((".", ":", "?"))


def wrong_exports(path: Path) -> list[str]:
    """What `__all__` has twice, or has and the module has not."""
    module = importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    exported = list(getattr(module, "__all__", []))
    return [each for each in exported if exported.count(each) > 1 or not hasattr(module, each)]


def test_a_module_that_decides_something_has_its_test_file() -> None:
    expected = {path: expected_test(path) for path in PLAIN if decides(path)}
    assert {str(path): str(test) for path, test in expected.items() if not (ROOT / test).is_file()} == {}


def test_exceptions_are_needed_and_true() -> None:
    assert [name for name in ELSEWHERE if not source(Path(name)).is_file()] == []


def test_a_module_says_what_it_is() -> None:
    assert [str(path) for path in MODULES if not says_what_it_is(path)] == []


def test_a_long_file_gives_the_reason_in_its_first_line() -> None:
    files = [source(path) for path in MODULES] + [path for tree in BESIDE for path in (ROOT / tree).rglob("*.py")]
    lines = {path: path.read_text().splitlines() for path in files}
    assert [str(path) for path, text in lines.items() if len(text) > LONGEST and " one file" not in text[0]] == []


@pytest.mark.parametrize("path", [path for path in ROOMS if len(path.parts) < 4], ids=str)
def test_a_room_is_described_in_a_few_lines(path: Path) -> None:
    text = ast.get_docstring(parsed(path)) or ""
    assert 1 <= len(text.splitlines()) <= 25


def test_what_a_module_exports_is_there_once() -> None:
    found = {str(path): wrong_exports(path) for path in MODULES if path.name != "__main__.py"}
    assert {path: names for path, names in found.items() if names} == {}
