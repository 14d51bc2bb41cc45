"""The manifests of deploy/, in one file: they agree with each other and with the program. No kubectl is needed to see that."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from multikueue import __version__, settings
from multikueue.api import kinds
from multikueue.cli import app
from multikueue.controllers.serving.names import CONFIGURATION
from multikueue.controllers.serving.visibility import CERTIFICATE_SECRET as VISIBILITY_SECRET
from multikueue.controllers.serving.webhooks import CERTIFICATE_SECRET
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.manager.process import KUEUES_LEASE
from multikueue.settings import LeaderElection, Settings, Shutdown
from multikueue.web.visibility import SERVED
from multikueue_console.web.rights import SHARED
from tests.project.files import ROOT, objects

DEPLOY = ROOT / "deploy"
OVERLAYS = {
    "standalone": {"jobs", "quota", "dispatch"},
    "beside-kueue": {"dispatch"},
    "external-dispatcher": {"nominate"},
}
ACCOUNT = "multikueue-manager"
NAMESPACE = Settings().cluster.namespace
SELECTED = {"app.kubernetes.io/name": "multikueue", "app.kubernetes.io/component": "manager"}
Body = dict[str, Any]


def kustomization(folder: Path) -> Body:
    found: Body = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return found


def folders_of(folder: Path) -> list[Path]:
    """A kustomization and all that it is made of."""
    here = kustomization(folder)
    parts = [(folder / part).resolve() for part in (*here.get("resources", ()), *here.get("components", ()))]
    return [folder, *(inner for part in parts if part.is_dir() for inner in folders_of(part))]


def bodies(overlay: str) -> list[Body]:
    """The objects of an overlay as they are in the files."""
    files = (
        folder / name
        for folder in folders_of(DEPLOY / "overlays" / overlay)
        for name in kustomization(folder).get("resources", ())
        if (folder / name).is_file()
    )
    return [body for file in files for body in objects(file.read_text())]


def of_kind(overlay: str, kind: str) -> list[Body]:
    return [body for body in bodies(overlay) if body["kind"] == kind]


def rules(overlay: str, kind: str) -> list[Body]:
    return [rule for role in of_kind(overlay, kind) for rule in role["rules"]]


def configured(overlay: str) -> Settings:
    return settings.load(DEPLOY / "overlays" / overlay / "multikueue.yaml")


def container() -> Body:
    (deployment,) = of_kind("standalone", "Deployment")
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(only)


def ports(overlay: str) -> dict[str, int]:
    """The named ports of the container, with those that components add."""
    named = {port["name"]: port["containerPort"] for port in container()["ports"]}
    for folder in folders_of(DEPLOY / "overlays" / overlay):
        for patch in kustomization(folder).get("patches", ()):
            for operation in yaml.safe_load(patch["patch"]):
                named[operation["value"]["name"]] = operation["value"]["containerPort"]
    return named


def test_there_is_one_overlay_per_deployment() -> None:
    assert {path.name for path in (DEPLOY / "overlays").iterdir()} == set(OVERLAYS)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_settings_of_an_overlay_are_good_and_those_of_its_roles(overlay: str) -> None:
    chosen = configured(overlay)

    assert chosen.roles == OVERLAYS[overlay]
    assert chosen.leader_election.enabled, "there are two replicas"
    assert chosen.log.format == "json"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_ports_are_those_of_the_settings(overlay: str) -> None:
    chosen, named = configured(overlay), ports(overlay)
    expected = {"probes": chosen.probes.port, "metrics": chosen.metrics.port}
    if chosen.webhook.enabled:
        expected["webhook"] = chosen.webhook.port
    if chosen.visibility.enabled:
        expected["visibility"] = chosen.visibility.port

    assert named == expected


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_service_leads_to_a_port_and_is_the_one_the_program_names(overlay: str) -> None:
    chosen = configured(overlay)
    services = {service["metadata"]["name"]: service["spec"] for service in of_kind(overlay, "Service")}
    wanted = {"multikueue-metrics"}
    wanted |= {chosen.webhook.service_name} if chosen.webhook.enabled else set()
    wanted |= {chosen.visibility.service_name} if chosen.visibility.enabled else set()

    assert set(services) == wanted
    for spec in services.values():
        (port,) = spec["ports"]
        assert port["targetPort"] in ports(overlay)
        assert spec.get("selector", SELECTED) == SELECTED


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_binding_binds_a_role_that_is_there_to_the_account(overlay: str) -> None:
    (account,) = of_kind(overlay, "ServiceAccount")
    assert account["metadata"]["name"] == ACCOUNT
    for kind in ("Role", "ClusterRole"):
        roles = {role["metadata"]["name"] for role in of_kind(overlay, kind)}
        bound = {binding["roleRef"]["name"] for binding in of_kind(overlay, f"{kind}Binding")}
        assert bound == roles
        for binding in of_kind(overlay, f"{kind}Binding"):
            (subject,) = binding["subjects"]
            assert (subject["kind"], subject["name"]) == ("ServiceAccount", ACCOUNT)
            assert "namespace" not in subject, "kustomize fills in the one of the kustomization, and replaces no other"


def test_whoever_wants_quotas_to_follow_grants_the_writing_of_them_and_nobody_else_does() -> None:
    folder = DEPLOY / "components" / "capacity-follow"
    (file,) = kustomization(folder)["resources"]
    role, binding = objects((folder / file).read_text())

    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [(["clusterqueues"], ["patch"])]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == [ACCOUNT]
    others = [overlay for overlay in OVERLAYS if overlay != "standalone"]  # which keeps the finalizers of queues
    granted = [rule for overlay in others for rule in rules(overlay, "ClusterRole")]
    assert not [rule for rule in granted if "clusterqueues" in rule["resources"] and "patch" in rule["verbs"]]


def test_whoever_has_jobs_deleted_after_a_time_grants_that_for_each_kind_and_nothing_else() -> None:
    (role, binding), (kinds, _) = (
        objects((DEPLOY / "components" / name / "rights.yaml").read_text()) for name in ("retention", "job-kinds")
    )
    known = {(rule["apiGroups"][0], *rule["resources"]) for rule in kinds["rules"] if "watch" in rule["verbs"]}
    known -= {("trainer.kubeflow.org", "trainingruntimes", "clustertrainingruntimes")}

    granted = {(rule["apiGroups"][0], *rule["resources"]) for rule in role["rules"]}
    assert granted == known | {("batch", "jobs"), ("apps", "statefulsets")}, "those on Pods come with Pods"
    assert all(rule["verbs"] == ["delete"] for rule in role["rules"])
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == [ACCOUNT]


def test_every_kind_of_jobs_can_be_watched_with_the_component_for_it() -> None:
    files = ((DEPLOY / "components" / name / "rights.yaml").read_text() for name in ("job-kinds", "pods"))
    roles = [body for file in files for body in objects(file) if body["kind"] == "ClusterRole"]
    granted = {
        (group, resource)
        for role in roles
        for rule in role["rules"]
        if {"list", "watch"} <= {*rule["verbs"]}
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    optional = [adapter.kind for adapter in FRAMEWORKS.values() if adapter.kind.is_optional]

    assert {(kind.group, kind.plural) for kind in optional} <= granted


CONSOLE = DEPLOY / "components" / "console"


def of_console(kind: str) -> list[Body]:
    files = ((CONSOLE / name).read_text() for name in kustomization(CONSOLE)["resources"])
    return [body for file in files for body in objects(file) if body["kind"] == kind]


def containers_of_console() -> dict[str, Body]:
    (deployment,) = of_console("Deployment")
    return {each["name"]: each for each in deployment["spec"]["template"]["spec"]["containers"]}


def test_the_console_reads_what_it_shows_and_asks_who_somebody_is_and_writes_nothing() -> None:
    (role,), (binding,) = of_console("ClusterRole"), of_console("ClusterRoleBinding")
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    watched = [*SHARED, kinds.WORKLOADS, kinds.LOCAL_QUEUES, kinds.JOBS]
    watched += [each.kind for each in FRAMEWORKS.values() if each.kind.is_optional]
    asked = {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
    listed = {("", "namespaces", "list"), ("kueue.x-k8s.io", "resourceflavors", "list")}

    assert granted == asked | listed | {
        (kind.group, kind.plural, verb)
        for kind in watched
        for verb in ("list", "watch")
        if kind.plural not in ("pods", "statefulsets")
    }
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [each["name"] for each in binding["subjects"]] == [of_console("ServiceAccount")[0]["metadata"]["name"]]


def test_the_console_runs_without_any_privilege_and_where_its_files_are() -> None:
    (deployment,) = of_console("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    claims = {each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"] if "persistentVolumeClaim" in each}

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert claims == {each["metadata"]["name"] for each in of_console("PersistentVolumeClaim")}
    for each in containers_of_console().values():
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        (history,) = [variable["value"] for variable in each["env"] if variable["name"] == "MULTIKUEUE_HISTORY"]
        assert PurePosixPath(history.removeprefix("sqlite:///")).parent in {
            PurePosixPath(mount["mountPath"]) for mount in each["volumeMounts"]
        }
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}, "two may not write one file on one node's volume"


def test_the_console_is_reached_at_its_port_and_nowhere_else() -> None:
    (service,), (policy,) = of_console("Service"), of_console("NetworkPolicy")
    (deployment,) = of_console("Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    (port,) = containers_of_console()["console"]["ports"]

    assert labels == {**SELECTED, "app.kubernetes.io/component": "console"}
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == labels
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert [each["targetPort"] for each in service["spec"]["ports"]] == [port["name"]]
    assert policy["spec"] == {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": port["name"]}]}],
    }


def test_the_console_gets_arguments_that_it_knows(tmp_path: Path) -> None:
    """All but the files are as they are written; there is no cluster, so each ends where it looks for one."""
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).touch()
    for each in containers_of_console().values():
        words = [word.replace("/etc/multikueue-console", str(tmp_path)) for word in each["args"]]
        told = CliRunner().invoke(app, [*words, "--no-such-option"])
        assert (told.exit_code, "--no-such-option" in told.output) == (2, True)


def test_the_image_of_the_console_is_of_this_version() -> None:
    (image,) = kustomization(CONSOLE)["images"]

    assert {image["name"]} == {each["image"] for each in containers_of_console().values()}
    assert image["newTag"] == __version__


def aggregated(label: str) -> set[tuple[str, str, str]]:
    """What the parts with that label grant together: group, resource and verb."""
    parts = objects((DEPLOY / "components" / "users" / "rights.yaml").read_text())
    return {
        (group, resource, verb)
        for part in parts
        if part["metadata"].get("labels", {}).get(label) == "true"
        for rule in part["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


USER, ADMIN = "rbac.kueue.x-k8s.io/batch-user", "rbac.kueue.x-k8s.io/batch-admin"


@pytest.mark.parametrize("label", [USER, ADMIN])
def test_people_may_submit_jobs_of_every_kind(label: str) -> None:
    kinds = [
        adapter.kind for adapter in FRAMEWORKS.values() if adapter.kind.is_optional or adapter.kind.group == "batch"
    ]
    own = {("", "pods"), ("apps", "statefulsets")}  # what Kubernetes ships for those
    wanted = {(kind.group, kind.plural, "create") for kind in kinds if (kind.group, kind.plural) not in own}
    assert wanted <= aggregated(label)


def test_a_batch_user_sees_what_becomes_of_their_jobs_and_writes_nothing_else() -> None:
    granted = aggregated(USER)
    assert {("kueue.x-k8s.io", "workloads", "get"), ("kueue.x-k8s.io", "localqueues", "list")} <= granted
    assert ("visibility.kueue.x-k8s.io", "localqueues/pendingworkloads", "get") in granted
    written = {group for group, _, verb in granted if verb not in ("get", "list", "watch")}
    assert not {"", "kueue.x-k8s.io", "visibility.kueue.x-k8s.io"} & written


def test_nobody_writes_statuses_or_workers_by_these_roles() -> None:
    granted = aggregated(USER) | aggregated(ADMIN)
    assert not [each for each in granted if each[1].endswith("/status")], "who may write them says where a job runs"
    assert {verb for _, resource, verb in granted if resource == "multikueueclusters"} == {"get", "list", "watch"}
    assert not [each for each in granted if "*" in each or each[1] == "secrets"]


def test_the_roles_to_bind_are_made_of_the_parts_by_kueues_labels() -> None:
    parts = objects((DEPLOY / "components" / "users" / "rights.yaml").read_text())
    made = {
        part["metadata"]["name"]: part["aggregationRule"]["clusterRoleSelectors"]
        for part in parts
        if "aggregationRule" in part
    }
    assert made == {
        "multikueue-batch-user": [{"matchLabels": {USER: "true"}}],
        "multikueue-batch-admin": [{"matchLabels": {ADMIN: "true"}}],
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_right_is_wider_than_it_must_be(overlay: str) -> None:
    for rule in [*rules(overlay, "Role"), *rules(overlay, "ClusterRole")]:
        assert "*" not in {*rule["verbs"], *rule["resources"], *rule["apiGroups"]}
        finalizers = all(resource.endswith("/finalizers") for resource in rule["resources"])
        wide = {"deletecollection", "escalate", "bind", "impersonate"} | (set() if finalizers else {"update"})
        assert not wide & set(rule["verbs"])
    reached = {resource for rule in rules(overlay, "ClusterRole") for resource in rule["resources"]}
    assert not {"secrets", "leases", "pods"} & reached, "not in the whole cluster"


def named(rules: list[Body], resource: str) -> set[str]:
    """The names of objects of a resource that may be read and written by name."""
    return {name for rule in rules if resource in rule["resources"] for name in rule.get("resourceNames", ())}


def test_rights_by_name_are_those_of_the_programs_objects() -> None:
    own, everywhere = rules("standalone", "Role"), rules("standalone", "ClusterRole")

    assert named(own, "leases") == {LeaderElection().resource_name, KUEUES_LEASE.name}
    assert named(own, "secrets") == {CERTIFICATE_SECRET, VISIBILITY_SECRET}
    assert named(everywhere, "mutatingwebhookconfigurations") == {CONFIGURATION.name}
    assert named(everywhere, "apiservices") == {f"{version}.{group}" for group, version in SERVED}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nobody_may_create_secrets_and_those_of_the_certificates_are_there(overlay: str) -> None:
    """Whoever may create Secrets may have a token of any account of the namespace."""
    own = rules(overlay, "Role")
    assert not [rule for rule in own if "secrets" in rule["resources"] and "create" in rule["verbs"]]
    made = {body["metadata"]["name"]: body for body in of_kind(overlay, "Secret")}
    assert made.keys() == named(own, "secrets")
    assert not any(body.get("data") for body in made.values()), "applied again it would be emptied"


def test_it_runs_without_any_privilege() -> None:
    (deployment,) = of_kind("standalone", "Deployment")
    pod, security = deployment["spec"]["template"]["spec"], container()["securityContext"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod["serviceAccountName"] == ACCOUNT


def test_two_replicas_are_replaced_one_by_one_and_have_time_to_stop() -> None:
    (deployment,) = of_kind("standalone", "Deployment")
    spec = deployment["spec"]
    (budget,) = of_kind("standalone", "PodDisruptionBudget")

    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert budget["spec"]["minAvailable"] == 1
    grace = Shutdown().grace_period.total_seconds()
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] >= grace + 5


def test_it_has_requests_and_no_limit_of_cpu() -> None:
    resources = container()["resources"]

    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}, "a throttled leader may fail to renew in time"


def test_it_reads_the_settings_where_they_are_mounted() -> None:
    (deployment,) = of_kind("standalone", "Deployment")
    (argument,) = [a for a in container()["args"] if a.startswith("--config=")]
    mounts = {mount["name"]: mount["mountPath"] for mount in container()["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in deployment["spec"]["template"]["spec"]["volumes"]}

    assert argument == f"--config={mounts['settings']}/multikueue.yaml"
    for overlay in OVERLAYS:
        (generated,) = kustomization(DEPLOY / "overlays" / overlay)["configMapGenerator"]
        assert generated["name"] == volumes["settings"]["configMap"]["name"]
        assert generated["files"] == ["multikueue.yaml"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_image_is_of_this_version(overlay: str) -> None:
    (image,) = kustomization(DEPLOY / "overlays" / overlay)["images"]

    assert image["name"] == container()["image"]
    assert image["newTag"] == __version__


def test_the_network_policy_lets_in_what_is_served_and_nothing_else() -> None:
    folder = DEPLOY / "components" / "network-policy"
    (file,) = kustomization(folder)["resources"]
    (policy,) = objects((folder / file).read_text())
    spec = policy["spec"]
    everybody, scrapers = spec["ingress"]

    assert spec["podSelector"]["matchLabels"] == SELECTED
    assert spec["policyTypes"] == ["Ingress"]
    assert set(everybody) == {"ports"}
    console = {"matchLabels": {**SELECTED, "app.kubernetes.io/component": "console"}}
    assert scrapers["from"] == [
        {"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}},
        {"podSelector": console},
    ]
    assert scrapers["ports"] == [{"port": "metrics"}]
    assert {port["port"] for port in everybody["ports"]} == set(ports("standalone")) - {"metrics"}
    assert set(ports("standalone")) == {name for overlay in OVERLAYS for name in ports(overlay)}
