"""What the documents promise is there: files, commands, settings, figures only where they were measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from multikueue.api import kinds
from multikueue.settings import ENV_PREFIX, LEVEL, Settings, load
from tests.project.files import DOCS, ROOT, blocks, code, read, section

LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([\w-]+))?\)")
VARIABLE = re.compile(rf"\b{ENV_PREFIX}[A-Z][A-Z_]*\b")
TEST = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")
NO_SETTINGS = {"MULTIKUEUE_TEST_CONTEXTS", "MULTIKUEUE_CONFIG", "MULTIKUEUE_HISTORY"}
AMBIGUOUS = re.compile(
    r"\bkubectl\b(?! kueue)[^|;`\n]*?[\s,]((?:workloads?|wl)(?:/[\w-]+)?)(?=[\s,'\"`]|$)", re.MULTILINE
)
"""A kind of which Kubernetes has one, too, since 1.37 (scheduling.k8s.io), and of which kubectl might show either."""
TEXTS = sorted(
    {
        *DOCS,
        *(
            path
            for folder in (
                "multikueue",
                "console",
                "simulator",
                "fakekube",
                "testbed",
                "deploy",
                "kind-configs",
                "docs",
            )
            for path in (ROOT / folder).rglob("*")
            if path.suffix in {".py", ".md", ".sh", ".yaml"}
        ),
    }
)


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def variables(group: type[BaseModel] = Settings, prefix: str = ENV_PREFIX) -> Iterator[str]:
    """The environment variables that the settings read."""
    for name, field in group.model_fields.items():
        variable = prefix + name.upper()
        yield variable
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from variables(field.annotation, variable + LEVEL)


def has_test(file: str, name: str | None) -> bool:
    """Whether there is that file, with a test of that name if one is named."""
    return (ROOT / file).is_file() and (
        name is None or re.search(rf"^(async )?def {name}\(", read(file), re.MULTILINE) is not None
    )


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_each_link_leads_somewhere(path: Path) -> None:
    for target, anchor in LINK.findall(path.read_text()):
        found = (path.parent / target).resolve() if target else path
        assert found.exists(), f"{path.name}: {target}"
        assert not anchor or anchor in anchors(found), f"{path.name}: {target}#{anchor}"


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_each_test_that_is_said_to_show_something_exists(path: Path) -> None:
    named = {found.groups() for text in code(path.read_text()) if (found := TEST.fullmatch(text))}

    assert sorted(f"{file}::{name}" for file, name in named if not has_test(file, name)) == []


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_each_setting_that_is_named_exists(path: Path) -> None:
    named = {variable for text in code(path.read_text()) for variable in VARIABLE.findall(text)}

    assert named <= {*variables(), *NO_SETTINGS}


def test_what_others_can_do_and_our_commands_cannot_has_its_reason() -> None:
    text = section(read("docs/commands.md"), "Beside those of others")
    table = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    (title, ours, *_, why), *rows = table
    assert (title, ours, why) == ("| What users do", "multikueue", "Why not more |")
    short = [row for row in rows if row[1].startswith(("no", "~"))]

    assert short
    assert [row[0] for row in short if row[-1].strip("| ") == ""] == []
    assert {len(row) for row in rows} == {len(table[0])}


def test_the_settings_file_that_is_shown_has_the_defaults(tmp_path: Path) -> None:
    (text,) = blocks(read("docs/operations.md"), "yaml")
    file = tmp_path / "settings.yaml"
    file.write_text(text)

    assert load(file) == Settings()


def test_the_rights_on_the_manager_cluster_cover_what_is_watched() -> None:
    watched = {getattr(kinds, name).plural for name in re.findall(r"\(kinds\.([A-Z_]+), ", read("multikueue/roles.py"))}
    rights = [line for line in read("docs/install.md").splitlines() if "list, watch" in line]

    granted = {resource.partition(".")[0] for line in rights for resource in re.findall(r"`([^`]+)`", line)}

    assert {"workloads", "jobs", "secrets"} <= watched
    assert watched <= granted


def test_the_changelog_keeps_its_form() -> None:
    headings = re.findall(r"^## (.+)$", read("CHANGELOG.md"), re.MULTILINE)
    kinds = set(re.findall(r"^### (.+)$", read("CHANGELOG.md"), re.MULTILINE))

    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_readme_says_what_is_not_there_yet() -> None:
    assert "Not yet" in read("README.md")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("kubectl get workloads -A", ["workloads"]),
        ("kubectl -n team get wl", ["wl"]),
        ("$ kubectl describe workload job-train-1a2b3", ["workload"]),
        ("kubectl wait workload/train --for=condition=Admitted", ["workload/train"]),
        ("kubectl get jobs,workloads", ["workloads"]),
        ("kubectl auth can-i list workloads", ["workloads"]),
        ("`kubectl get wl`", ["wl"]),
        ("kubectl get workloads.kueue.x-k8s.io -A", []),
        ("kubectl wait workload.kueue.x-k8s.io/train --for=condition=Admitted", []),
        ("kubectl get --raw /apis/visibility.kueue.x-k8s.io/v1beta2/workloads", []),
        ("kubectl kueue stop workload train", []),
        ("kubectl get jobs | grep workloads", []),
        ("multikueue get workloads", []),
    ],
)
def test_a_kind_that_kubernetes_has_too_is_found_in_a_command(text: str, found: list[str]) -> None:
    assert AMBIGUOUS.findall(text) == found


def test_each_command_of_kubectl_says_whose_workloads_it_means() -> None:
    found = {str(path.relative_to(ROOT)): AMBIGUOUS.findall(path.read_text()) for path in TEXTS}
    assert {path: kinds for path, kinds in found.items() if kinds} == {}
