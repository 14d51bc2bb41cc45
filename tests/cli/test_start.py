"""What a command loads before it asks anybody: counted, since time depends on the machine.

`make bench ARGS=start` measures what it costs.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.start import unreachable

PROGRAM = """
import json, sys
from multikueue.cli import main
try:
    main(json.loads(sys.argv[1]))
except SystemExit as end:
    code = end.code
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""

COMMANDS = "multikueue.cli.commands"

ASKING = ("clusters", "get", "logs", "objects", "queues", "webhook", "why", "workloads")
JOINING = ("clusters register", "clusters remove")

# Not pydantic itself: typer takes it for the parsing of its own parameters.
NO_HELP_NEEDS = (
    *("aiohttp", "anyio", "asyncio", "cryptography", "kubernetes_asyncio", "pydantic_settings", "rich", "structlog"),
    "yaml",
)
NO_COMMAND_NEEDS = ("kubernetes_asyncio", "urllib3", "rich", "structlog", "cryptography", "tenacity")
# Nor pydantic: plain values are taken as they are.
NO_LIST_NEEDS = (
    *NO_COMMAND_NEEDS,
    "pydantic",
    "pydantic_settings",
    "prometheus_client",
    "multikueue.settings",
    "multikueue.jobs",
    "multikueue.quota",
    "multikueue.dispatch",
    "multikueue.store.store",
    "multikueue.manager",
)
# These know the kinds of jobs, but no settings where none are given, and nothing that decides.
NO_CHECK_NEEDS = (
    *NO_COMMAND_NEEDS,
    "prometheus_client",
    "multikueue.controllers.reconcile",
    "multikueue.dispatch",
    "multikueue.quota.scheduler",
    "multikueue.settings",
    "multikueue.store.state",
    "pydantic_settings",
)


class Case(NamedTuple):
    """`ours` and `all` are the most modules; a little more than there are today."""

    words: str
    without: Sequence[str]
    ours: int
    all: int


CASES = (
    Case("--help", (*NO_HELP_NEEDS, "fakekube"), 67, 291),
    Case("version", (*NO_HELP_NEEDS, f"{COMMANDS}.clusters", f"{COMMANDS}.workloads"), 15, 301),
    Case("run --help", (*NO_HELP_NEEDS, f"{COMMANDS}.clusters", f"{COMMANDS}.workloads"), 19, 312),
    Case("clusters register --help", (*NO_HELP_NEEDS, f"{COMMANDS}.workloads", f"{COMMANDS}.process.run"), 29, 313),
    Case("workloads list --help", (*NO_HELP_NEEDS, f"{COMMANDS}.clusters", f"{COMMANDS}.process.run"), 33, 313),
    Case("clusters list", NO_LIST_NEEDS, 78, 485),
    Case("clusters show w", NO_LIST_NEEDS, 77, 485),
    Case("clusters check w", NO_CHECK_NEEDS, 148, 549),
    Case("clusters capacity", NO_CHECK_NEEDS, 154, 552),
    Case("clusters register w", NO_CHECK_NEEDS, 147, 621),
    Case("clusters remove w", NO_CHECK_NEEDS, 147, 621),
    Case("webhook remove", NO_LIST_NEEDS, 65, 475),
    Case("workloads list", NO_LIST_NEEDS, 78, 485),
    Case("workloads show w", NO_LIST_NEEDS, 85, 491),
    Case("workloads logs w", NO_LIST_NEEDS, 83, 490),
    Case("why w", NO_LIST_NEEDS, 68, 475),
    Case("logs w", NO_LIST_NEEDS, 78, 485),
    Case("get jobs", NO_LIST_NEEDS, 85, 491),
    Case("queues list", NO_LIST_NEEDS, 68, 476),
    Case("objects unreadable", (*NO_COMMAND_NEEDS, "multikueue.settings"), 229, 640),
    Case("strategies list", ("aiohttp", "multikueue.settings", *NO_COMMAND_NEEDS), 24, 310),
    Case("run --dry-run", ("aiohttp", "prometheus_client", *NO_COMMAND_NEEDS), 240, 625),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words)
def test_a_command_loads_what_it_needs_and_no_more(case: Case, tmp_path: Path) -> None:
    words = case.words.split()
    asks = words[-1] != "--help" and words[0] in ASKING
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(unreachable())
    if case.words.startswith(JOINING) and asks:
        words += ["--worker-kubeconfig", str(kubeconfig)]

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(words)],
        env={**_without_settings(), "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=True,
    )

    code, loaded = json.loads(done.stderr.splitlines()[-1])
    assert code == (3 if asks else 0), done.stderr
    assert set(loaded) & set(case.without) == set()
    assert len([name for name in loaded if name.partition(".")[0] == "multikueue"]) <= case.ours
    assert len(loaded) <= case.all


def _without_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MULTIKUEUE_")}


def test_the_manager_loads_no_command_but_its_own_and_no_rich() -> None:
    program = "import sys, multikueue.telemetry.logs, multikueue.manager.process; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    loaded = set(done.stdout.split())
    assert "structlog" in loaded
    assert loaded & {"rich", "kubernetes_asyncio", "urllib3", "typer", "multikueue.cli", "cryptography"} == set()


CERTIFICATES = """
import json, ssl, sys
from multikueue.cli import main
try:
    main(json.loads(sys.argv[1]))
except SystemExit:
    pass
import aiohttp.connector
of_the_system = ssl.create_default_context().cert_store_stats()["x509"]
print(aiohttp.connector._SSL_CONTEXT_VERIFIED.cert_store_stats()["x509"], of_the_system > 0, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words", ["workloads list", "why w", "clusters check w", "clusters capacity", "objects unreadable"]
)
def test_a_command_does_not_read_the_systems_certificates_for_nobody(words: str, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(unreachable())
    given = json.dumps([*words.split(), "--manager-kubeconfig", str(kubeconfig)])

    done = subprocess.run([sys.executable, "-c", CERTIFICATES, given], capture_output=True, text=True, check=True)

    of_aiohttp, can_be_read = done.stderr.splitlines()[-1].split()
    assert of_aiohttp == "0"
    assert can_be_read == "True" or not ssl.create_default_context().get_ca_certs()


COLLECTIONS = """
import gc, sys
from multikueue.cli import main
before = [each["collections"] for each in gc.get_stats()]
try:
    main()
except SystemExit:
    pass
print([each["collections"] for each in gc.get_stats()] == before, file=sys.stderr)
"""


def test_a_short_command_does_not_search_for_garbage() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLLECTIONS, "strategies", "list"], capture_output=True, text=True, check=True
    )

    assert done.stderr == "True\n"
