"""The image of the pool is built and started as docker/ says, by podman, on a Debian that is made here.

Needs root, podman with runc, and mmdebstrap (`scripts/farm images`); takes minutes. How packages are reached
is this machine's own way: its package sources, certificates and pip's settings go into the build.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
POOL = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]["pool"]
NEEDED = ("podman", "runc", "mmdebstrap")
START_S = 120.0  # reached only where a test fails
LOOK = (
    "import os, json; said = open('/proc/self/status').read().split(); "
    "print(json.dumps({'uid': os.getuid(), 'rights': int(said[said.index('CapEff:') + 1], 16), "
    "'bounded': int(said[said.index('CapBnd:') + 1], 16), 'no_new': said[said.index('NoNewPrivs:') + 1]}))"
)
ANSWER = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8700/healthz', timeout=5).status)"
pytestmark = pytest.mark.drill


def run(*command: object, check: bool = True) -> str:
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


def package_settings() -> list[str]:
    """Mounts that let a build reach packages as this machine does."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True)
    places = {Path(word) for word in re.findall(r"(?<![/\w])/[^/' ][^' ]*", listed.stdout)}
    places |= {Path("/etc") / name for name in ("apt/sources.list", "apt/sources.list.d", "apt/apt.conf.d")}
    places |= {Path("/etc") / name for name in ("pip.conf", "ssl/certs/ca-certificates.crt", "resolv.conf")}
    mounts = {str(place): str(place) for place in places}
    mounts[str(Path.home() / ".config/pip")] = "/root/.config/pip"
    return [f"--volume {here}:{there}:ro" for here, there in mounts.items() if Path(here).exists()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """podman with storage of its own, which has guiagent/pool."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"no {' '.join(missing) or 'root'}: scripts/farm images")
    folder = tmp_path_factory.mktemp("podman")
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/root"\n'
    )
    (folder / "containers.conf").write_text(
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "runc"\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_STORAGE_CONF", str(folder / "storage.conf"))
        patch.setenv("CONTAINERS_CONF", str(folder / "containers.conf"))
        patch.setenv("DOCKER_HOST", "unix:///nowhere")  # docker/build then takes podman
        patch.setenv("BASE", "localhost/debian")
        patch.setenv("BUILD_FLAGS", " ".join(["--isolation chroot --network host", *package_settings()]))
        included = "--include=ca-certificates"  # its file is one of the mounts, so nothing may write it later
        run("mmdebstrap", "--quiet", "--variant=apt", included, "bookworm", folder / "base.tar")
        run("podman", "import", folder / "base.tar", "localhost/debian")
        run("docker/build", "pool")
        yield
        run("podman", "rm", "--all", "--force", check=False)
        run("podman", "rmi", "--all", "--force", check=False)


def test_the_pool_runs_without_root_rights_or_a_place_to_change(built: None) -> None:
    rights = ["--cap-drop", *POOL["cap_drop"]] + (["--read-only"] if POOL["read_only"] else [])
    rights += [word for one in POOL["security_opt"] for word in ("--security-opt", one.removesuffix(":true"))]
    rights += [word for one in POOL["tmpfs"] for word in ("--tmpfs", one)]
    rights += ["--network", "none", "--volume", "pool-state:/state", "--name", "pool", "--detach"]
    run("podman", "run", *rights, "--env", "GUIAGENT_TOKEN=a-token-for-the-tests", "guiagent/pool")

    deadline = time.monotonic() + START_S
    while "200" not in (said := run("podman", "exec", "pool", "python3", "-c", ANSWER, check=False)):
        assert time.monotonic() < deadline, said + run("podman", "logs", "pool", check=False)
        time.sleep(1.0)
    shown = run("podman", "exec", "pool", "python3", "-c", LOOK)
    assert '{"uid": 1000, "rights": 0, "bounded": 0, "no_new": "1"}' in shown
    for place in ("/opt/guiagent/x", "/src/x", "/etc/x", "/home/guiagent/x"):
        assert "Read-only file system" in run("podman", "exec", "pool", "touch", place, check=False)
    sbom = run("podman", "exec", "pool", "cat", "/opt/guiagent/sbom.cdx.json")
    assert '"pkg:pypi/h11@' in sbom and "pkg:deb/debian/tini@" in sbom
