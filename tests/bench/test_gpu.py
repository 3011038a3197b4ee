"""The GPU benchmark: rehearsed at a tiny size on the CPU, its sizes on the meta device, and its bounds."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from rich.console import Console
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from tests.bench import results
from tests.bench.accelerators import peak_of
from tests.bench.gpu import __main__ as gpu
from tests.bench.gpu import profile, rollouts, scale, stages
from tests.bench.results import Files
from tests.bench.rows import Arm, Row, reported
from training.model.flops import Work


@pytest.fixture(scope="module")
def machine() -> scale.Machine:
    return scale.Machine.measured(rehearsed=True)


def verdicts(rows: Iterator[Row]) -> dict[str, str]:
    found = {row.name: row for row in rows}
    assert all(row.ours is not None for row in found.values())
    return {name: row.verdict for name, row in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "limits",
        pytest.param("references", marks=pytest.mark.drill),
        "training, 2B",
        pytest.param("training, 8B", marks=pytest.mark.drill),
        "rollouts, 2B",
        "profile, 2B",
    ],
)
def test_a_stage_is_rehearsed_to_its_end(machine: scale.Machine, name: str) -> None:
    found = verdicts(stages.STAGES[name].measure(machine, True))
    assert len(found) >= 2
    assert all(verdict.startswith("yes") or verdict == "no verdict" for verdict in found.values()), found


def test_a_kernel_counts_for_what_it_computes() -> None:
    assert profile.kind_of("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN") == "products of matrices"
    assert profile.kind_of("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16") == "attention"
    assert profile.kind_of("void at::native::vectorized_elementwise_kernel<4, silu>") == "everything else"


def test_kernels_at_the_same_time_are_busy_once() -> None:
    spans = [(0.0, 4.0), (6.0, 7.0), (1.0, 2.0), (3.0, 5.0)]
    assert profile.busy(profile.Kernel("k", *span) for span in spans) == 6.0


def test_all_stages_fit_into_one_call() -> None:
    assert sum(stage.seconds for stage in stages.STAGES.values()) <= 12 * 60  # more than they are to take
    assert list(stages.STAGES)[:3] == ["limits", "tests", "references"]


def test_what_was_measured_stands_in_the_file_when_the_time_is_over(tmp_path: Path) -> None:
    files = Files(tmp_path / "gpu.json", tmp_path / "gpu.md")
    deadline = time.monotonic() + 1  # less than what it takes to import PyTorch
    code = gpu.carry_out(["limits", "loop"], files, deadline, Console(quiet=True), True)
    assert code == 1
    cut, never = results.read(files).subjects
    assert "not done within" in cut.rows[-1].note
    assert [row.note for row in never.rows] == ["the time of the call was over"]
    page = tmp_path / "figures.md"
    page.write_text(f"<!-- {gpu.PLACE} -->\n<!-- /{gpu.PLACE} -->\n")
    results.publish(results.read(files), page, gpu.PLACE)
    assert "gpu: limits" in page.read_text()


def test_without_a_gpu_it_says_so_in_a_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.gpu"],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("no GPU here") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("config", "least", "most", "kv"),
    [
        (scale.qwen3_vl_2b(), 2.1e9, 2.2e9, 114_688),
        (scale.qwen3_vl_8b(), 8.7e9, 8.8e9, 147_456),
        (scale.policy_100m(), 0.08e9, 0.12e9, 12_288),
    ],
)
def test_the_models_are_as_large_as_they_are_called(
    config: Qwen3VLConfig, least: float, most: float, kv: int
) -> None:
    with torch.device("meta"):
        model = Qwen3VLForConditionalGeneration(config).bfloat16()
    assert least < sum(p.numel() for p in model.parameters()) < most
    assert rollouts.kv_bytes(model) == kv
    assert Work.of(model).head == config.text_config.vocab_size * config.text_config.hidden_size


@pytest.mark.parametrize("name", sorted(scale.SCALES))
def test_an_episode_of_full_hd_screens_fits_into_a_pass(name: str) -> None:
    sizes = scale.SCALES[name]
    screens = max(layout.window for layout in sizes.layouts)
    a_screen = (1920 // 32) * (1088 // 32)
    assert screens * (a_screen + sizes.tokens + 32) + 512 <= sizes.batch_tokens


@pytest.mark.parametrize(
    ("name", "flops"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA GeForce RTX 4090", 165e12),
        ("Tesla T4", None),
    ],
)
def test_devices_are_known_by_the_names_that_drivers_give_them(name: str, flops: float | None) -> None:
    peak = peak_of(name)
    assert (peak and peak.flops) == flops


def test_what_is_only_reported_is_no_verdict_where_it_is_missing() -> None:
    row = reported("training", "tokens/s", Arm.of(missing="no CUDA device"))
    assert (row.verdict, row.note) == ("missing", "missing: no CUDA device")
    row = reported("training", "tokens/s", Arm.of(10.0), Arm.of(40.0), limit=Arm.of(50.0))
    assert (row.ours, row.peer, row.ratio, row.limit, row.verdict) == (10, 40, 0.25, 50, "yes")
