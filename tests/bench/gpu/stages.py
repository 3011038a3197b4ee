"""The stages of `make gpu` in order of worth, each with the seconds it may take: what is cut off is the last.

    python -m tests.bench.gpu.stages NAME DESCRIPTOR [--rehearse]

carries out one of them, in a process of its own, and writes its rows to the descriptor, each a line of JSON.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.bench.gpu.scale import SCALES, Machine, Scale, rehearsal
from tests.bench.rows import Arm, Row, at_most, reported

_ROUNDS = 2
_TESTS = Path(__file__).parents[2] / "training" / "test_cuda.py"

Measure = Callable[[Machine, bool], Iterator[Row]]


class Stage(NamedTuple):
    seconds: float  # at most
    measure: Measure


def limits(machine: Machine, rehearsed: bool) -> Iterator[Row]:
    """What the device reaches with nothing else to do, and what its data sheet says."""
    flops, bandwidth = (machine.peak.flops, machine.peak.bandwidth) if machine.peak else (None, None)
    for what, unit, reached, limit in (
        ("products of matrices", "TFLOP/s", machine.products, flops),
        ("copies", "TB/s", machine.bandwidth, bandwidth),
    ):
        said = Arm.of(limit / 1e12) if limit else Arm.of(missing="not known")
        yield reported(
            f"{machine.name}: {what} (limit: data sheet)", unit, Arm.of(reached / 1e12), limit=said
        )


def cuda_tests(machine: Machine, rehearsed: bool) -> Iterator[Row]:
    """The tests that want the device; rehearsed, on the CPU."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "cuda", str(_TESTS)]
    done = subprocess.run(
        command, env=os.environ | {"GUIAGENT_CUDA_TESTS": machine.device.type}, stdout=sys.stderr
    )
    yield at_most("tests on the device", "failed", Arm.of(float(done.returncode != 0)), 0)


def references(machine: Machine, rehearsed: bool) -> Iterator[Row]:
    from tests.bench.gpu import references

    yield from references.rows(machine)


def training(name: str) -> Measure:
    def measure(machine: Machine, rehearsed: bool) -> Iterator[Row]:
        from tests.bench.gpu import training

        yield from training.rows(_scale(name, rehearsed), machine, 1 if rehearsed else _ROUNDS)

    return measure


def rollouts(name: str) -> Measure:
    def measure(machine: Machine, rehearsed: bool) -> Iterator[Row]:
        from tests.bench.gpu import rollouts

        yield from rollouts.rows(_scale(name, rehearsed), machine, 1)

    return measure


def profile(name: str) -> Measure:
    def measure(machine: Machine, rehearsed: bool) -> Iterator[Row]:
        from tests.bench.gpu import profile

        yield from profile.rows(_scale(name, rehearsed), machine)

    return measure


def loop(machine: Machine, rehearsed: bool) -> Iterator[Row]:
    from tests.bench.gpu import loop

    yield from loop.rows(machine, rehearsed)


STAGES: dict[str, Stage] = {
    "limits": Stage(20, limits),
    "tests": Stage(50, cuda_tests),
    "references": Stage(30, references),
    "training, 2B": Stage(150, training("2B")),  # an H200 took 122
    "training, 8B": Stage(140, training("8B")),
    "rollouts, 2B": Stage(140, rollouts("2B")),
    "loop": Stage(90, loop),
    "profile, 2B": Stage(90, profile("2B")),
}


def _scale(name: str, rehearsed: bool) -> Scale:
    return rehearsal(SCALES[name].name) if rehearsed else SCALES[name]


def main(name: str, descriptor: int, rehearsed: bool) -> None:
    with os.fdopen(descriptor, "wb", buffering=0) as out:
        for row in STAGES[name].measure(Machine.measured(rehearsed), rehearsed):
            out.write(msgspec.json.encode(row) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["--rehearse"])
