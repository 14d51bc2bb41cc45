"""Where kubeconfigs come from, and how what a source says is refused: one file, as all sources share the rules."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.meta import encode
from multikueue.api.multikueue.clusters import ClusterProfile, MultiKueueCluster
from multikueue.controllers.workers.connection import kubeconfigs
from multikueue.controllers.workers.connection.kubeconfigs import Access, Kubeconfigs, RefusedError
from multikueue.kube import reflector
from multikueue.kube.auth.kubeconfig import LARGEST
from multikueue.kube.auth.tokens import ExecPlugin
from multikueue.kube.cluster_client import WatchingClient
from multikueue.settings import (
    AccessProvider,
    ClusterProfiles,
    Dispatch,
    ExecCommand,
    InForce,
    Quota,
    Settings,
    Variable,
)
from tests.controllers.table import table
from tests.kube.server import client_of, lists, refuses, streams
from tests.store.known import stored

pytestmark = pytest.mark.anyio

NAMESPACE = "kueue-system"
PREFIX = "load client config failed: "


def cluster(name: str = "w1", **source: Any) -> MultiKueueCluster:
    body = {"metadata": {"name": name, "uid": name}, "spec": {"clusterSource": source}}
    return msgspec.convert(body, MultiKueueCluster)


def at(path: Path | str, *, name: str = "w1") -> MultiKueueCluster:
    return cluster(name, kubeConfig={"location": str(path), "locationType": "Path"})


def of_profile(name: str) -> MultiKueueCluster:
    return cluster(clusterProfileRef={"name": name})


def profile(name: str = "p", namespace: str = NAMESPACE, **status: Any) -> ClusterProfile:
    body = {"metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}, "status": status}
    return msgspec.json.decode(encode(body), type=ClusterProfile)


def offers(name: str, **cluster: Any) -> dict[str, Any]:
    return {"name": name, "cluster": {"server": "https://h"} | cluster}


def provider(name: str, **command: Any) -> AccessProvider:
    return AccessProvider(name=name, exec=ExecCommand(**({"command": "plugin"} | command)))


def sources(*profiles: ClusterProfile, providers: tuple[AccessProvider, ...] = (), **settings: Any) -> Kubeconfigs:
    store = table().store
    for each in profiles:
        store.profiles.replace((each,))
    dispatch = Dispatch(cluster_profile=ClusterProfiles(access_providers=providers), **settings)
    made = Kubeconfigs(store, InForce(Settings(dispatch=dispatch)), NAMESPACE)
    made._profiles_seen.set()
    return made


async def access(made: Kubeconfigs, of: MultiKueueCluster) -> Access:
    return await made.access(of, await made.read(of))


async def refusal(made: Kubeconfigs, of: MultiKueueCluster) -> tuple[str, str]:
    """Reason and message, without what all messages begin with."""
    with pytest.raises(RefusedError) as caught:
        await access(made, of)
    assert caught.value.message.startswith(PREFIX)
    return caught.value.reason, caught.value.message.removeprefix(PREFIX)


GOOD = encode(
    {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://h"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }
)


async def test_a_cluster_that_names_nothing() -> None:
    reason, message = await refusal(sources(), cluster())
    assert (reason, message) == (
        "BadKubeConfig",
        "spec.clusterSource: expected kubeConfig or clusterProfileRef, got none",
    )


# Files.


async def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(GOOD)
    found = await access(sources(), at(path))
    assert (found.kubeconfig, found.credentials.server) == (GOOD, "https://h")


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("kubeconfig", "path must be absolute"),
        ("./kubeconfig", "path must be absolute"),
        ("/a/../b", 'path contains ".."'),
        ("../x", 'path contains ".."'),
    ],
)
async def test_a_path_that_leads_from_elsewhere_is_refused_in_kueues_words(location: str, why: str) -> None:
    found = await refusal(sources(), at(location))
    assert found == ("BadKubeConfig", f"kubeconfig path is not under the allowed prefix: {why}")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(lambda path: None, "open {}: no such file or directory", id="missing"),
        pytest.param(Path.mkdir, "{}: expected a file", id="a directory"),
        pytest.param(os.mkfifo, "{}: expected a file", id="a pipe, which would be waited for"),
        pytest.param(
            lambda path: path.symlink_to(path), "open {}: too many levels of symbolic links", id="a link to itself"
        ),
        pytest.param(
            lambda path: path.write_bytes(b"x" * (LARGEST + 1)),
            f"{{}}: expected at most {LARGEST} bytes",
            id="too long",
        ),
    ],
)
async def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path, make: Any, why: str) -> None:
    path = tmp_path / "kubeconfig"
    make(path)
    assert await refusal(sources(), at(path)) == ("BadKubeConfig", why.format(path))


async def test_a_file_system_that_does_not_answer_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    gone_on = threading.Event()
    monkeypatch.setattr(kubeconfigs, "FILE_TIMEOUT", timedelta(milliseconds=20))
    monkeypatch.setattr(kubeconfigs, "_from_file", lambda *_: gone_on.wait(10))
    expected = ("BadKubeConfig", "/k: its file system does not answer")
    assert await refusal(sources(), at("/k")) == expected
    gone_on.set()


async def test_a_path_with_a_null_byte_is_refused() -> None:
    reason, message = await refusal(sources(), at("/a\0b"))
    assert reason == "BadKubeConfig"
    assert "null byte" in message


async def test_a_directory_for_kubeconfigs_holds_for_what_links_lead_to(tmp_path: Path) -> None:
    allowed, elsewhere = tmp_path / "allowed", tmp_path / "elsewhere"
    for folder in (allowed / "..data", elsewhere):
        folder.mkdir(parents=True)
        (folder / "kubeconfig").write_bytes(GOOD)
    (allowed / "kubeconfig").symlink_to("..data/kubeconfig")
    (allowed / "out").symlink_to(elsewhere / "kubeconfig")
    made = sources(kubeconfig_directory=allowed)
    assert (await access(made, at(allowed / "kubeconfig"))).kubeconfig == GOOD
    for path in (allowed / "out", elsewhere / "kubeconfig"):
        place = elsewhere / "kubeconfig"
        expected = f'kubeconfig path is not under the allowed prefix: "{place}" is not under "{allowed}"'
        assert await refusal(made, at(path)) == ("BadKubeConfig", expected)


async def test_a_link_that_is_exchanged_while_a_file_is_read_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write in the directory must not read another file of ours by being quick."""
    allowed, elsewhere = tmp_path / "allowed", tmp_path / "elsewhere"
    allowed.mkdir()
    (allowed / "good").write_bytes(GOOD)
    elsewhere.write_bytes(GOOD.replace(b"https://h", b"https://elsewhere"))
    link = allowed / "kubeconfig"
    link.symlink_to("good")

    def exchange(name: str) -> None:
        link.unlink(missing_ok=True)
        link.symlink_to(name)

    really_open, really_resolve = os.open, Path.resolve

    def open_the_other(name: str, flags: int) -> int:
        exchange(str(elsewhere))
        opened = really_open(name, flags)
        exchange("good")
        return opened

    def resolve_the_good_one(path: Path) -> Path:
        resolved = really_resolve(path)
        exchange(str(elsewhere))
        return resolved

    monkeypatch.setattr(os, "open", open_the_other)
    monkeypatch.setattr(Path, "resolve", resolve_the_good_one)
    why = f'kubeconfig path is not under the allowed prefix: "{elsewhere}" is not under "{allowed}"'
    expected = ("BadKubeConfig", why)
    assert await refusal(sources(kubeconfig_directory=allowed), at(link)) == expected


async def test_what_breaks_a_rule_or_cannot_be_parsed_is_insecure(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(b"{not yaml")
    assert (await refusal(sources(), at(path)))[0] == "InsecureKubeConfig"
    path.write_bytes(GOOD.replace(b"https", b"http"))
    assert await refusal(sources(), at(path)) == ("InsecureKubeConfig", "plain http is not allowed for cluster c")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"current-context":"c"', b'"current-context":"d"', "there is no context 'd'"),
        (b'"server"', b'"certificate-authority-data":"bm9uZQ==","server"', "certificate-authority: expected cert"),
        (b'"token":"t"', b'"client-key-data":"bm9uZQ=="', "client-certificate is missing"),
    ],
)
async def test_what_no_rule_forbids_and_cannot_work_is_bad(tmp_path: Path, old: bytes, new: bytes, why: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(GOOD.replace(old, new))
    reason, message = await refusal(sources(), at(path))
    assert reason == "BadKubeConfig"
    assert message.startswith("kubeconfig of cluster w1: ") or why in message
    assert why in message


@given(st.binary(max_size=300))
async def test_a_file_of_any_bytes_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        await sources().access(at("/x"), data)
    assert caught.value.reason == "InsecureKubeConfig"


async def test_kubeconfigs_may_break_the_rules_where_that_is_allowed_and_as_long_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(GOOD.replace(b'"server"', b'"insecure-skip-tls-verify":true,"server"'))
    made = sources(insecure_kubeconfigs=True)
    assert (await access(made, at(path))).credentials.server == "https://h"
    made.in_force.take(with_dispatch(made, insecure_kubeconfigs=False))
    assert (await refusal(made, at(path)))[0] == "InsecureKubeConfig"


# ClusterProfiles.


async def test_without_providers_no_profile_can_be_used() -> None:
    assert await refusal(sources(profile()), of_profile("p")) == (
        "BadClusterProfile",
        "no access provider configured",
    )


async def test_up_to_0_18_it_is_a_credentials_provider_that_is_missing() -> None:
    made = sources(profile())
    made.in_force.settings = made.in_force.settings.model_copy(update={"quota": Quota(compatibility="0.18")})
    assert (await refusal(made, of_profile("p")))[1] == "no credentials provider configured"


async def test_without_providers_a_profile_that_is_missing_is_told_as_such() -> None:
    expected = ("BadClusterProfile", 'ClusterProfile.multicluster.x-k8s.io "p" not found')
    assert await refusal(sources(), of_profile("p")) == expected


async def test_profiles_can_be_switched_off_while_they_are_used() -> None:
    made = sources(profile(accessProviders=[offers("a")]), providers=(provider("a"),))
    await access(made, of_profile("p"))
    made.in_force.take(with_dispatch(made, cluster_profile=ClusterProfiles(enabled=False)))
    expected = ("MultiKueueClusterProfileFeatureDisabled", "MultiKueueClusterProfile feature gate is disabled")
    assert await refusal(made, of_profile("p")) == expected


def with_dispatch(made: Kubeconfigs, **changes: Any) -> Settings:
    return Settings(dispatch=made.settings.model_copy(update=changes))


async def test_a_profile_of_another_namespace_is_none_of_ours() -> None:
    made = sources(profile(namespace="other"), providers=(provider("a"),))
    assert await refusal(made, of_profile("p")) == (
        "BadClusterProfile",
        'ClusterProfile.multicluster.x-k8s.io "p" not found',
    )


async def test_a_profile_without_a_provider_that_is_configured() -> None:
    made = sources(profile(accessProviders=[offers("x"), offers("b")]), providers=(provider("a"), provider("c")))
    assert await refusal(made, of_profile("p")) == (
        "BadClusterProfile",
        'no access provider of ClusterProfile "p" is configured: it has [b x], configured are [a c]',
    )


async def test_the_first_configured_provider_that_the_profile_has_is_used() -> None:
    found = profile(accessProviders=[offers("b", server="https://b"), offers("a", server="https://a")])
    made = sources(found, providers=(provider("c"), provider("a"), provider("b")))
    assert (await access(made, of_profile("p"))).credentials.server == "https://a"


async def test_the_deprecated_field_counts_where_the_new_one_is_silent() -> None:
    old = [offers("a", server="https://old-a"), offers("b", server="https://old-b")]
    found = profile(accessProviders=[offers("a", server="https://a")], credentialProviders=old)
    for name, server in (("a", "https://a"), ("b", "https://old-b")):
        made = sources(found, providers=(provider(name),))
        assert (await access(made, of_profile("p"))).credentials.server == server


async def test_the_plugin_gets_its_own_words_and_only_the_harmless_part_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "environ", {"PATH": "/bin", "MULTIKUEUE_SECRET": "s", "KUBECONFIG": "/k"})
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": "x"}}
    command = provider("a", args=("--x",), env=(Variable(name="OWN", value="1"),), provide_cluster_info=True)
    made = sources(profile(accessProviders=[offers("a", extensions=[extension])]), providers=(command,))
    token = (await access(made, of_profile("p"))).credentials.token
    assert isinstance(token, ExecPlugin)
    args, environment = token._command()
    assert args == ["plugin", "--x"]
    info = msgspec.json.decode(environment.pop("KUBERNETES_EXEC_INFO"))
    assert environment == {"PATH": "/bin", "OWN": "1"}
    assert info["spec"]["cluster"] == {"server": "https://h", "config": {"clusterName": "x"}}


@pytest.mark.parametrize(
    ("offer", "message"),
    [
        pytest.param({"server": "http://h"}, "plain http is not allowed for cluster a", id="plain http"),
        pytest.param({"server": ""}, "server URL is required for cluster a", id="no server"),
        pytest.param(
            {"insecure-skip-tls-verify": True}, "insecure TLS verification is not allowed for cluster a", id="insecure"
        ),
        pytest.param({"server": 5}, "failed to parse the kubeconfig: Expected `str | null`", id="a number"),
        pytest.param({"certificate-authority-data": "%"}, "certificate-authority: expected PEM", id="no base64"),
    ],
)
async def test_a_profile_that_breaks_a_rule(offer: dict[str, Any], message: str) -> None:
    made = sources(profile(accessProviders=[offers("a", **offer)]), providers=(provider("a"),))
    reason, said = await refusal(made, of_profile("p"))
    assert reason == "BadRestConfig"
    assert message in said


async def test_a_cluster_of_any_json_in_a_profile_is_used_or_refused() -> None:
    values: tuple[Any, ...] = (None, [], "x", 5, {}, {"server": None}, {"server": ["https://h"]}, {"extensions": 5})
    for value in values:
        made = sources(profile(accessProviders=[{"name": "a", "cluster": value}]), providers=(provider("a"),))
        assert (await refusal(made, of_profile("p")))[0] == "BadRestConfig"


async def test_a_manager_cluster_without_the_kind_says_so_and_gets_it_later(monkeypatch: pytest.MonkeyPatch) -> None:
    made = sources(providers=(provider("a"),))
    made._profiles_seen = anyio.Event()
    monkeypatch.setattr(reflector, "_LONGEST_PAUSE_WITHOUT_KIND", timedelta(milliseconds=10))
    metadata = {"name": "p", "namespace": NAMESPACE, "uid": "u", "resourceVersion": "1"}
    body = {"metadata": metadata, "status": {"accessProviders": [offers("a")]}}
    answers = (refuses(404, "NotFound"), refuses(404, "NotFound"), lists(body), streams(then="silence"))
    async with client_of(*answers) as (client, _), anyio.create_task_group() as tasks:
        tasks.start_soon(made.watch, client)
        _, message = await refusal(made, of_profile("p"))
        assert "the server has no kind ClusterProfile (multicluster.x-k8s.io/v1alpha1)" in message
        with anyio.fail_after(5):
            while not len(made.store.profiles):  # noqa: ASYNC110  # it happens in a server, not in an event of ours
                await anyio.sleep(0.005)
        assert (await access(made, of_profile("p"))).credentials.server == "https://h"
        tasks.cancel_scope.cancel()


def test_clusters_of_profiles_are_looked_at_again_when_the_trouble_with_profiles_changes() -> None:
    store, noted = stored()
    store.clusters.replace((of_profile("p"), at("/k", name="w2")))
    made = Kubeconfigs(store, InForce(Settings()), NAMESPACE)
    for is_healthy, why, expected in ((False, "429", True), (False, "429", False), (True, "", True), (True, "", False)):
        noted.keys.clear()
        made._profiles_state(is_healthy, why)
        assert noted.keys == ["cluster w1"] * expected


async def test_profiles_are_not_watched_where_nobody_names_one() -> None:
    made = sources()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made.watch, cast(WatchingClient, None))  # it is not asked
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()


async def test_a_profile_is_waited_for_until_the_first_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfigs, "FIRST_LOOK", kubeconfigs.FIRST_LOOK / 1000)
    made = sources(providers=(provider("a"),))
    made._profiles_seen = anyio.Event()
    assert (await refusal(made, of_profile("p")))[0] == "BadClusterProfile"
