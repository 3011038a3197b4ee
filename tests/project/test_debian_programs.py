"""Every Debian program that the product or its tests start is installed by a script, none by hand."""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What starts a program or looks for one, by module.
STARTING = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output"},
    "asyncio": {"create_subprocess_exec"},
    "shutil": {"which"},
    "os": {"execv", "execvp", "execvpe"},
    "owned": {"spawn"},
}
# Programs that the default run does without, by their packages: dpkg knows no file of what is not installed.
PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "chromedriver": "chromium-driver",  # of `make test-doors`
    "node": "nodejs",  # of `make test-doors`
    "initdb": "postgresql",  # in a folder of its version, off the PATH
}
# What is no Debian package, or a machine has from elsewhere.
ELSEWHERE = {
    "emulator": "the Android SDK",
    "nvidia-smi": "the driver of a GPU",
}
# With these a machine is called a bare Debian, beside what is essential (`scripts/fresh`).
BARE = {"apt", "ca-certificates", "git", "make", "mount", "passwd", "python3"}


def started(source: str) -> set[str]:
    """Programs that a Python file starts or looks for, by name: literals, and constants of the module."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def first(node: ast.expr) -> str | None:
        match node:
            case ast.Constant(value=str(word)):
                return word
            case ast.List(elts=[head, *_]) | ast.Tuple(elts=[head, *_]) | ast.Starred(value=head):
                return first(head)
            case ast.BinOp(left=head, op=ast.Add()):
                return first(head)
            case ast.Name(id=name) if name in constants:
                return first(constants[name])
        return None

    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in STARTING.get(node.module or "", ())
    }

    def names() -> Iterator[str | None]:
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=name), args=[head, *_]) if name in imported:
                    yield first(head)
                case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name), args=[head, *_]):
                    if name in STARTING.get(module, ()):
                        yield first(head)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys)) if "NEEDED" in name:
                    yield from (key.value for key in keys if isinstance(key, ast.Constant))  # type: ignore[misc]
                case ast.Assign(targets=[ast.Name(id="command")], value=value):
                    yield first(value)

    return {name for name in names() if name and re.fullmatch(r"[\w.+-]+", name) and not name.startswith("-")}


@cache
def installed() -> dict[str, set[str]]:
    """Names of packages that each installed one needs."""
    if shutil.which("dpkg-query") is None:
        pytest.skip("this is no Debian")
    shown = "${Package}\t${Depends}, ${Pre-Depends}\t${Essential}\n"
    lines = subprocess.run(["dpkg-query", "-Wf", shown], capture_output=True, text=True, check=True).stdout
    needs = {}
    for line in lines.splitlines():
        package, depends, essential = line.split("\t")
        needs[package] = {re.split(r"[ :(]", name.strip())[0] for name in re.split("[,|]", depends)} - {""}
        if essential == "yes":
            BARE.add(package)
    return needs


def with_what_they_need(packages: set[str]) -> set[str]:
    needs, found, left = installed(), set[str](), set(packages)
    while left:
        found.add(package := left.pop())
        left |= needs.get(package, set()) - found
    return found


def package_of(program: str) -> str:
    if program in PACKAGES:
        return PACKAGES[program]
    path = shutil.which(program, path="/usr/bin:/bin:/usr/sbin:/sbin")
    if path is None:
        return "nowhere on the PATH"
    for place in (path, str(Path(path).resolve()), path.removeprefix("/usr")):
        said = subprocess.run(["dpkg", "-S", place], capture_output=True, text=True).stdout
        if said:
            return re.split("[,:]", said.splitlines()[-1])[0]
    return "of no installed package"


def words_of_scripts() -> set[str]:
    """Every word of the assignments and commands that install packages."""
    text = "".join(path.read_text() for path in (ROOT / "scripts").iterdir())
    return set(re.findall(r"[a-z0-9][a-z0-9.+-]+", re.sub(r"(?m)^\s*#.*$", "", text)))


@pytest.mark.slow
def test_every_program_comes_with_a_package_that_a_script_installs() -> None:
    places: dict[str, str] = {}
    for package in ("guiagent", "devices", "rewards", "training", "eval", "tests", "examples"):
        for path in (ROOT / package).rglob("*.py"):
            if "bench" not in path.parts:  # peers have what they need installed by tests/bench/peers
                places.update({program: path.name for program in started(path.read_text())})
    programs = {name: package_of(name) for name in places if name not in ELSEWHERE}
    assert {"Xvfb", "bwrap", "adb", "ffmpeg", "soffice", "qemu-img", "chromium-headless-shell"} <= set(
        programs
    )
    packages = {name for name in words_of_scripts() if name in installed() or name in PACKAGES.values()}
    provided = with_what_they_need(packages | BARE | set(PACKAGES.values()) & words_of_scripts())
    assert not {
        name: (places[name], package) for name, package in programs.items() if package not in provided
    }


def test_a_program_is_found_however_it_is_named() -> None:
    source = """
import subprocess, shutil, asyncio
_TOOL = "tool-a"
_COMMAND = ("tool-b", "--fast")
NEEDED = {"tool-c": "package-c"}
from shutil import which
subprocess.run([_TOOL, "x"])
subprocess.Popen([*_COMMAND, "x"])
asyncio.create_subprocess_exec("tool-d", "x")
which("tool-e")
page.run("no-tool")
command = ["tool-f"] + ["x"]
"""
    assert started(source) == {f"tool-{letter}" for letter in "abcdef"}
