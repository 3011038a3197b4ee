"""The images, the compose file and the manifests name things that exist."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from devices import specs

DOCKER = Path(__file__).parents[2] / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
VERSION = tomllib.loads((DOCKER.parent / "pyproject.toml").read_text())["project"]["version"]
TARGETS = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())


def manifests() -> list[dict[str, Any]]:
    files = sorted(DOCKER.glob("kubernetes/base/*.yaml"))
    return [one for file in files for one in yaml.safe_load_all(file.read_text())]


def test_compose_builds_targets_that_exist() -> None:
    built = {service["build"]["target"] for service in COMPOSE["services"].values() if "build" in service}
    assert built <= TARGETS
    assert {"pool", "browser", "desktop", "vm", "android", "emulator"} <= built


def test_compose_publishes_on_loopback_only_and_wants_a_secret() -> None:
    for service in COMPOSE["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert COMPOSE["services"]["pool"]["environment"]["GUIAGENT_TOKEN"].startswith("${GUIAGENT_TOKEN:?")


@pytest.mark.parametrize("words", re.findall(r"guiagent host ([^\"]+)\"", DOCKERFILE))
def test_hosts_are_started_with_devices_there_are(words: str) -> None:
    said = re.sub(r"\$\{GUIAGENT_COUNT:-(\d+)\}", r"\1", words)
    said = re.sub(r"\$\{GUIAGENT_SERIAL:\?[^}]*\}", "redroid:5555", said)
    assert specs.parse(said.split())


def test_kubernetes_uses_images_that_are_built_and_files_that_are_there() -> None:
    (base,) = [one for one in manifests() if one["kind"] == "Kustomization"]
    assert all((DOCKER / "kubernetes/base" / file).is_file() for file in base["resources"])
    pods = [one["spec"]["template"]["spec"] for one in manifests() if one["kind"] == "Deployment"]
    images = {container["image"] for pod in pods for container in pod["containers"]}
    assert images == {f"guiagent/{target}" for target in ("pool", "browser", "desktop")}
    assert {image["name"] for image in base["images"]} == images
    assert not any(pod["automountServiceAccountToken"] for pod in pods)


def test_the_ray_cluster_has_a_token_and_answers_its_own_nodes_alone() -> None:
    folder = DOCKER / "kubernetes/ray"
    (base,) = yaml.safe_load_all((folder / "kustomization.yaml").read_text())
    found = [one for file in base["resources"] for one in yaml.safe_load_all((folder / file).read_text())]
    cluster, policy = (
        one for kind in ("RayCluster", "NetworkPolicy") for one in found if one["kind"] == kind
    )
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    for pod in (group["template"]["spec"] for group in groups):
        (container,) = pod["containers"]
        assert (
            container["image"].removeprefix("guiagent/") in TARGETS
            and not pod["automountServiceAccountToken"]
        )
        told = {variable["name"]: variable for variable in container["env"]}
        assert (
            told["RAY_AUTH_MODE"]["value"] == "token"
            and "secretKeyRef" in told["RAY_AUTH_TOKEN"]["valueFrom"]
        )
    assert groups[0]["rayStartParams"]["dashboard-host"] == "127.0.0.1"
    nodes = {"matchLabels": {"ray.io/cluster": cluster["metadata"]["name"]}}
    assert policy["spec"]["podSelector"] == nodes
    assert policy["spec"]["ingress"][0]["from"][0] == {"podSelector": nodes}


def test_what_the_build_script_names_can_be_built() -> None:
    usage = subprocess.run([DOCKER / "build"], capture_output=True, text=True)
    assert usage.returncode == 2
    named = set(usage.stderr.partition("(")[2].partition(")")[0].split())
    assert named == TARGETS - {"base"}


# -- rights ------------------------------------------------------------------------------------------------

NEEDS_ROOT = {"desktop"}  # it builds the sandboxes of its desktops
PRIVILEGED = {"redroid"}  # as its makers ship it


def last_user(target: str) -> str:
    """The user that an image of the Dockerfile runs as, its own or that of what it is built on."""
    stages = {
        name: (base, body)
        for base, name, body in re.findall(
            r"^FROM (\S+) AS (\w+)$(.*?)(?=^FROM |\Z)", DOCKERFILE, re.M | re.S
        )
    }
    while target in stages:
        target, body = stages[target]
        if users := re.findall(r"^USER (\w+)$", body, re.M):
            return str(users[-1])
    return "root"


def test_images_run_as_an_ordinary_user() -> None:
    assert {target for target in TARGETS - {"base"} if last_user(target) == "root"} == NEEDS_ROOT


def test_containers_have_no_more_rights_than_their_kind_needs() -> None:
    for name, service in COMPOSE["services"].items():
        if name in PRIVILEGED | NEEDS_ROOT:
            continue
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert "cap_add" not in service and "privileged" not in service, name
    privileged = {name for name, service in COMPOSE["services"].items() if service.get("privileged")}
    assert privileged == PRIVILEGED


def test_what_is_privileged_shares_no_network_with_pool_or_database() -> None:
    networks = {name: set(service["networks"]) for name, service in COMPOSE["services"].items()}
    assert not networks["redroid"] & (networks["pool"] | networks["postgres"])
    assert networks["postgres"] == {"database"} and COMPOSE["networks"]["database"]["internal"]
    hosts = {name for name, joined in networks.items() if "database" in joined}
    assert hosts == {"pool", "postgres"}, "a device host does not reach the database"


def test_pods_have_no_more_rights_than_their_kind_needs() -> None:
    for one in manifests():
        if one["kind"] != "Deployment" or one["metadata"]["name"] in NEEDS_ROOT:
            continue
        pod = one["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"] and rights["capabilities"] == {"drop": ["ALL"]}
            assert not rights["allowPrivilegeEscalation"]


def test_images_are_named_by_a_version() -> None:
    base = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE, re.M)
    images = [service["image"] for service in COMPOSE["services"].values() if "image" in service]
    for image in [*base, *images]:
        assert re.search(r":\d+\.[\w.-]+(@sha256:[0-9a-f]{64})?\}?$", image), image
    for folder in ("base", "ray"):
        (kustomization,) = yaml.safe_load_all(
            (DOCKER / "kubernetes" / folder / "kustomization.yaml").read_text()
        )
        assert {image["newTag"] for image in kustomization["images"]} == {VERSION}
