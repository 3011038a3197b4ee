"""The checkout is what gets imported, and the packages keep their layers."""

import importlib.util
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("package", ["guiagent", "devices", "rewards", "training", "eval"])
def test_package_comes_from_this_checkout(package: str) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    assert Path(spec.origin) == ROOT / package / "__init__.py"


def test_the_tree_page_is_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "tree", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_imports_go_down_the_floors_and_never_in_a_circle() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "stations"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("0 upward  0 in circles") == 5


def test_a_large_folder_has_its_reason_in_the_tour() -> None:
    tour = (ROOT / "docs" / "architecture.md").read_text().partition("## Where folders are large")[2]
    named = set(re.findall(r"`([\w/]+)/`", tour))
    large = set()
    for package in ("guiagent", "devices", "rewards", "training", "eval"):
        for marker in (ROOT / package).rglob("__init__.py"):
            if len(list(marker.parent.glob("*.py"))) > 13:  # a dozen, and the marker itself
                large.add(marker.parent.relative_to(ROOT).as_posix())
    assert large <= named, f"cut them, or say why not: {sorted(large - named)}"
    assert {name for name in named if not name.startswith("tests")} <= large, "no longer large"


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Also inside a folder, and by imports in functions or for types alone."""
    graph = grimp.build_graph("guiagent", "devices", "rewards", "training", "eval")
    TopologicalSorter({one: graph.find_modules_directly_imported_by(one) for one in graph.modules}).prepare()


def test_nothing_evaluates_or_unpickles() -> None:
    """ruff's S rules see calls; this sees imports."""
    forbidden = (
        "import pickle",
        "import marshal",
        "import shelve",
        "torch.load(",
        "yaml.load(",
        "shell=True",
    )
    for package in ("guiagent", "devices", "rewards", "training", "eval"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            assert not [word for word in forbidden if word in text], path


def test_help_imports_nothing_heavy() -> None:
    script = "import sys; sys.argv = ['guiagent', '--help']\nfrom guiagent.cli import main\n"
    script += "try: main()\nexcept SystemExit: pass\n"
    script += (
        "print([m for m in ('torch', 'fastapi', 'playwright', 'transformers', 'PIL') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
