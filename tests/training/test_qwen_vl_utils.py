"""Everything that qwen-vl-utils has a part in, in the environment that has it (`scripts/qwen`)."""

import os
import subprocess
from pathlib import Path

import pytest

from training.engine.vllm import server as vllm_server

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".venv-qwen"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (ENVIRONMENT / "installed").is_file(), reason="qwen-vl-utils is not installed: scripts/qwen"
    ),
]
needs_vllm = pytest.mark.skipif(
    not (vllm_server.ENVIRONMENT / "installed").is_file(), reason="vLLM is not installed: scripts/vllm"
)


@pytest.mark.parametrize(
    "file",
    [
        "tests/training/with_qwen_vl_utils.py",
        "tests/training/test_encode.py",
        "tests/rewards/with_qwen_vl_utils.py",
        pytest.param("tests/rewards/with_qwen_vl_utils_and_vllm.py", marks=[pytest.mark.vllm, needs_vllm]),
    ],
)
def test_with_the_package_installed(file):
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [ENVIRONMENT / "bin" / "python", "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", file],
        cwd=ROOT,
        env=ours,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
