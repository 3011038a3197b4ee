"""Images install files with known hashes and nothing else, and can say what they are made of."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "locks").glob("*.txt"))
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
PINNED = re.compile(r"([a-z0-9.-]+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)")
UNLOCKED = {"trainer"}  # torch is another file for each accelerator


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().split()
    return {canonical(name): version for name, _, version in (line.partition("==") for line in lines)}


def locked(file: Path) -> tuple[list[str], dict[str, str]]:
    """The extras that a lock is of, and its versions by name. Each line must have a hash."""
    head, *lines = file.read_text().splitlines()
    found = {}
    for line in lines:
        match = PINNED.fullmatch(line)
        assert match is not None, line
        found[canonical(match[1])] = match[2]
    return re.findall(r"\w+", head.partition("[")[2]), found


@pytest.mark.parametrize("file", LOCKS, ids=lambda file: file.stem)
def test_each_file_of_a_lock_has_a_hash_and_the_version_of_the_constraints(file: Path) -> None:
    extras, found = locked(file)
    pins = constraints()
    assert {name: pins.get(name) for name in found} == found
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wished = [
        *project["dependencies"],
        *(one for extra in extras for one in project["optional-dependencies"][extra]),
    ]
    names = {canonical(re.split(r"[^A-Za-z0-9._-]", wish, maxsplit=1)[0]) for wish in wished}
    assert names | {"hatchling"} <= set(found)


def test_images_install_what_a_lock_lists() -> None:
    groups = set(re.findall(r"docker/install (\w+)", DOCKERFILE))
    assert groups == {file.stem for file in LOCKS}
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    free = {re.match(r"\S+ AS (\w+)", stage)[1] for stage in stages if "pip install" in stage}  # type: ignore[index]
    assert free == UNLOCKED
    assert "--require-hashes" in (ROOT / "docker/install").read_text()


def test_an_image_with_a_file_of_another_hash_is_not_built(tmp_path: Path) -> None:
    """pip is what refuses; this shows that a lock of our form makes it do so."""
    wheel = tmp_path / "six-1.17.0-py3-none-any.whl"
    wheel.write_bytes(b"PK\x05\x06" + bytes(18))
    lock = tmp_path / "lock.txt"
    lock.write_text(f"# guiagent[farm]\nsix==1.17.0 --hash=sha256:{'0' * 64}\n")
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", str(tmp_path)]
    command += [
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--target",
        str(tmp_path / "to"),
        "-r",
        str(lock),
    ]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr


def test_the_bill_of_materials_names_all_that_is_installed() -> None:
    made = subprocess.run([sys.executable, ROOT / "scripts/sbom"], capture_output=True, text=True, check=True)
    document = json.loads(made.stdout)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["name"] == "guiagent"
    components = document["components"]
    references = [one["bom-ref"] for one in components] + [document["metadata"]["component"]["bom-ref"]]
    assert len(set(references)) == len(references)
    assert all(one["purl"].startswith(("pkg:pypi/", "pkg:deb/debian/")) for one in components)
    for link in document["dependencies"]:
        assert {link["ref"], *link["dependsOn"]} <= set(references)
    versions = {one["name"]: one["version"] for one in components if one["purl"].startswith("pkg:pypi/")}
    pins = constraints()
    for name in ("pydantic", "h11", "pillow"):
        assert versions[name] == pins[name]
