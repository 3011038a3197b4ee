"""What README.md and docs/ tell a reader to run is run: every command, script and configuration file in them.

A case is a block of a page, so a new block is a new case. It runs in a copy of the checkout with state of its
own. What takes long is shortened by SHORTER, placeholders have stand-ins, what cannot be short is a drill and
has the whole of its block with it. A block of which neither label nor first word says what it is fails. The
pages of docs/ are marked "docs" and have a run of their own; blocks of a page are run in order by one worker.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from guiagent.errors import MissingProgram
from tests.support.documented import Block, blocks
from tests.support.model_stand_in import Body, stand_in

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PRINTED = {"text"}  # languages of what is read and not run
SAVED = {"toml", "js", "svg", "json", "yaml"}  # of what is saved as the file that its label names

_FEW = "--set rollout.devices=2 --set rollout.group_size=4 --set update.groups=2"
_ONE_STEP = "--set sft.steps=1 --set sft.batch=4 --set evaluation.episodes=1"
_BASE = "--set base.reading=1 --set base.pointing=1 --set base.batch=4"
SHORTER = [
    (r"^make demo$", "guiagent demo --port 0 --episodes 1 --set steps=1 --set rollout.group_size=2"),
    (
        r"^(guiagent demo --hours .*?)(?: +#.*)?$",
        r"\1 --port 0 --episodes 1 --set steps=1 --set rollout.group_size=2",
    ),
    (r"^make (\S+)$", r"make --dry-run \1"),
    (r"^(python -m tests\.bench\b.*)$", r"\1 --help"),
    (r"^(python -m tests\.(?:bench|drills)\b.*)$", r"\1 --help"),  # after its words were read
    (r"^(guiagent train .*--dry-run.*)$", r"\1 > dry-run.txt; grep '^ok .*cost' dry-run.txt"),
    (
        r"^(guiagent train --recipe (?:arpo-demo|zero|rounds) (?!.*--dry-run).*)$",
        rf"\1 --set minutes=0.02 {_FEW}",
    ),
    (
        r"^(guiagent train --recipe everywhere (?!.*--dry-run).*)$",
        r"\1 --set steps=1 --set rollout.group_size=2",
    ),
    (r"^(guiagent train --recipe (?:zero|rounds) .*)$", r"\1 --set evaluation.episodes=1"),
    (r"^(guiagent train --recipe tiny-sft .*)$", r"\1 --set demonstrations=40 --set steps=4 --set batch=4"),
    (r"^(guiagent train --recipe tiny-judge .*)$", r"\1 --set labelled=150 --set steps=4 --set batch=4"),
    (r"^(guiagent train --recipe tiny-.*)$", r"\1 --set devices=2"),
    (
        r"^(guiagent train --recipe tiny-platforms .*)$",
        r"\1 --set demonstrations.episodes=24 --set base.screens=24 --set base.copying=1"
        f" {_BASE} {_ONE_STEP}",
    ),
    (
        r"^(guiagent train --recipe tiny-careless .*)$",
        rf"\1 --set policy=tiny-platforms --set demonstrations.episodes=24 {_ONE_STEP}",
    ),
    (r"^(guiagent demonstrate .*)=200$", r"\1=4 --set devices=1"),
    (
        r"^(guiagent train --recipe lab .*)--seeds \d+$",
        r"\1--seeds 2 --set demonstrations.episodes=8 --set sft.steps=2 --set single.steps=1"
        " --set multi.steps=1 --set evaluation.episodes=1",
    ),
    (
        r"^(guiagent train --recipe lab-scratch .*)$",
        rf"\1 --set demonstrations.episodes=8 --set base.screens=12 {_BASE} {_ONE_STEP}",
    ),
    (
        r"^(guiagent train --recipe phone-demo .*)$",
        r"\1 --set demonstrations.episodes=8 --set sft.steps=2 --set multi.steps=1"
        " --set multi.update.flat_groups=keep --set multi.rollout.group_size=2"  # for nothing succeeds
        " --set adapt.demonstrations.episodes=2 --set adapt.sft.steps=1 --set evaluation.episodes=1",
    ),
    (
        r"^(guiagent compare --arms .*)--seeds \d+$",
        rf"\1--seeds 1 --minutes 0.01 {_FEW} --set evaluation.episodes=1",
    ),
    (r"^(guiagent compare .*)--seeds \d+$", rf"\1--seeds 1 --minutes 0.01 {_FEW}"),
    (r"^(guiagent eval .*)--runs \d+", r"\1--runs 2"),
    (r"^(guiagent eval --suite grounding) ", r"\1 --tasks 'screenspot_web-000*' "),
    (r"^(guiagent grounding export .*)--screens \d+$", r"\1--screens 1 --kinds lab"),
    (r"^(guiagent eval --suite safety) ", r"\1 --tasks archive,archive-pay-image "),
    (r"^(guiagent eval --suite miniwob-demo --policy) tiny ", r"\1 oracle --tasks click-color "),
    (r"^(guiagent select .*)$", r"\1 --keep-mastered"),  # what an oracle solved in its only attempt
    (r"^(guiagent eval --suite lab) ", r"\1-perturbed "),  # the same kinds of task, a quarter of them
    (r"^(guiagent eval .*)$", r"\1 --episodes 1 --devices 2"),
    (r"^(guiagent tasks audit lab)\b.*", r"\1 --task reach-4 --devices 1"),
    (r"^(guiagent tasks audit safety)\b.*", r"\1 --task archive-pay-image --devices 1 --seeds 1"),
    (r"^(guiagent tasks audit phone)\b.*", r"\1 --task settings-switch --devices 1"),
    (r"^(guiagent tasks audit web)\b.*", r"\1 --task tracker-resolve --devices 1 --seeds 1"),
    (r"^(guiagent tasks audit harbor:\S+ --no-exploits).*", r"\1 --task write-a-file --devices 1 --seeds 1"),
    (r"^(guiagent (?:propose|synthesize) .*)--n \d+", r"\1--n 1"),
    (r"\bbrowser=4\b", "browser=3"),
    (r"\bbrowser=8\b", "browser=1"),
    (r"\b(desktop|phone)=2\b", r"\1=1"),
    (r"^(count|warm) = \d+", r"\1 = 1"),
]
LONG = [
    (r"^make demo$|^guiagent (demo --hours|compare|judge again)\b", pytest.mark.drill),
    (r"^guiagent (eval --suite (web|phone)|tasks audit web)\b", pytest.mark.drill),
    (r"^guiagent propose .*--policy ", pytest.mark.drill),  # which tries what it proposes
    (r"^guiagent train --recipe (zero|rounds|lab|lab-scratch|phone-demo|tiny-\w+) ", pytest.mark.drill),
    (r"^(mkdir \S+ && )?cp .*runs/", pytest.mark.drill),  # of what a long one made
    (r"^scripts/sites \w", pytest.mark.drill),  # which downloads the application
    (r"^scripts/vllm|rollout\.vllm", pytest.mark.vllm),
]
SERVICES = [  # what goes on running beside the commands that follow, and what it says when it is ready
    (r"^guiagent up\b", "pool ready"),
    (r"^guiagent host\b", "joined the pool"),
    (r"^guiagent (mcp|proxy)\b", "serving"),
    (r"^guiagent (openenv|nemo-gym(?!.*--rows)|harbor(?!.*--out)|e2b|agent a2a)\b", "serving"),
    (r"^guiagent forward\b", "127.0.0.1:"),
    (r"^guiagent watch\b(?!.*--export)", "live page"),
    (r"-m devices\.guest\b", "listening on"),
]
FIRST = [  # what a command finds there, since an earlier page or section made it
    (r"runs/demo\b", "runs/demo", "guiagent train --recipe arpo-demo --run runs/demo"),
    (r"runs/zero\b", "runs/zero", "guiagent train --recipe zero --run runs/zero"),
]
_SECONDS = 240  # for one command
_TOKEN = "a-token-of-the-documented-farm"


def stand_ins(model: str, port: int, folder: Path) -> list[tuple[str, str]]:
    return [
        (r"https?://HOST:PORT", model),
        (r"\bMODEL\b", "stand-in"),
        (r"osworld:FOLDER|PATH/TO/osworld", "osworld:tests/support/osworld_tasks"),
        (r"(tasks check) FOLDER", r"\1 tests/support/harbor_tasks"),
        (r"harbor:FOLDER", "harbor:tests/support/harbor_tasks"),
        (r"webarena:FOLDER", "webarena:tests/support/webarena_tasks"),
        (r"(tasks check) (?:osworld|harbor):", r"\1 "),
        (r"policy=FOLDER", "policy=training/tiny/checkpoint"),
        (r"\bDIR\b", str(folder)),
        (r"\bPOOL\b|\b10\.0\.0\.1\b|\b0\.0\.0\.0\b", "127.0.0.1"),
        (r"\b8700\b", str(port)),
        (r"--port 5000\b", "--port 0"),
        (r"/run/guest\.sock", str(folder / "guest.sock")),
        (r"^(guiagent up\b(?!.*--port).*)$", rf"\1 --port {port}"),
        (r"https://example\.org", "data:text/html,hello"),
    ]


# -- the cases -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Documented:
    page: Path
    block: Block
    commands: tuple[str, ...]


def is_long(command: str) -> Any:
    """The marker that keeps a command out of the default run; None for one that is short, or made so."""
    return next((mark for pattern, mark in LONG if re.search(pattern, command)), None)


def cases() -> Iterator[Any]:
    for page in PAGES:
        for block in blocks(page.read_text()):
            if block.language in PRINTED or block.file:
                continue
            name = f"{page.relative_to(ROOT)}:{block.line}"
            own = [] if page.name == "README.md" else [pytest.mark.docs, pytest.mark.xdist_group(page.name)]
            marks = [mark for command in block.commands if (mark := is_long(command))]
            if block.language != "sh" or not marks:
                yield pytest.param(Documented(page, block, tuple(block.commands)), id=name, marks=own)
                continue
            whole = [*own, marks[0]]
            yield pytest.param(
                Documented(page, block, tuple(block.commands)), id=f"{name}:whole", marks=whole
            )
            if short := tuple(command for command in block.commands if not is_long(command)):
                yield pytest.param(Documented(page, block, short), id=name, marks=own)


# -- where they run ------------------------------------------------------------------------------------------


class Place:
    """A copy of the checkout, with a state folder of its own and a model server for the placeholders."""

    def __init__(self, folder: Path, model: str) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._stand_ins = stand_ins(model, self._port, folder)
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in listed.stdout.splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        for name in (".venv", ".venv-vllm", ".venv-sites"):
            if (ROOT / name).exists():
                (folder / name).symlink_to(ROOT / name)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GUIAGENT_")},
            "GUIAGENT_TOKEN": _TOKEN,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(folder),
            "OMP_NUM_THREADS": "1",
        }

    def meant(self, text: str) -> str:
        """What is run for what is written."""
        for pattern, replacement in [*SHORTER, *self._stand_ins]:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        return text

    def open(self, page: Path) -> None:
        """Save the files of a page; its state is its own: another page's leases last an hour."""
        self.environment["GUIAGENT_HOME"] = str(self.folder / "state" / page.stem)
        for block in blocks(page.read_text()):
            if block.file:
                path = self.folder / block.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self.meant(block.text))

    def prepare(self, command: str) -> None:
        for pattern, made, how in FIRST:
            made_by_itself = command.startswith(how)
            if re.search(pattern, command) and not made_by_itself and not (self.folder / made).exists():
                self.run(how)

    def run(self, command: str) -> None:
        """To its end, which has to be a good one. Skips where a program is missing here."""
        self.prepare(command)
        process = subprocess.Popen(
            ["bash", "-c", self.meant(command)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            printed, complained = process.communicate(timeout=_SECONDS)
        except BaseException:  # it is not left behind, nor what it started
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        if process.returncode == MissingProgram.exit_code:
            pytest.skip(complained.strip().splitlines()[-1])
        assert process.returncode == 0, f"{self.meant(command)}\n{printed[-2000:]}\n{complained[-4000:]}"

    def script(self, text: str) -> None:
        path = self.folder / "documented.py"
        path.write_text(self.meant(text))
        self.run(f"python {path.name}")

    def serve(self, command: str, ready: str, number: int) -> "subprocess.Popen[bytes]":
        """A service that has said it is ready; it is the caller's to end."""
        log = self.folder / f"service-{number}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec env {self.meant(command)}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        give_up = time.monotonic() + _SECONDS
        while ready not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > give_up:
                said = log.read_text(errors="replace")
                end(process)
                if process.returncode == MissingProgram.exit_code:
                    pytest.skip(said.strip().splitlines()[-1])
                pytest.fail(f"{self.meant(command)}\n{said[-4000:]}")
            time.sleep(0.05)
        return process


def end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def mind(body: Body) -> str:
    """Says what whoever asks can read: a verdict, a task, or a policy's last action."""
    words = str(body["messages"])
    if "SCORE" in words:
        return "SCORE: 1"
    if "tasks" in words.lower() and "Action:" not in words:
        names = [f'{{"instruction": "Click on Tab #{number}."}}' for number in (2, 3, 1)]
        return f'{{"tasks": [{", ".join(names)}]}}'
    return "Thought: nothing is left to do.\nAction: finished(content='done')"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with stand_in(mind) as model:
        checkout = tmp_path_factory.mktemp("checkout")
        checkout.chmod(0o755)  # as people's are: devices that run as users of their own read it
        yield Place(checkout, model.url)


@pytest.mark.parametrize("case", list(cases()))
def test_it_runs_as_documented(place: Place, case: Documented) -> None:
    where = f"{case.page.relative_to(ROOT)}:{case.block.line}"
    place.open(case.page)
    match case.block.language:
        case "python":
            place.script(case.block.text)
        case "sh":
            with ExitStack() as services:
                for number, command in enumerate(case.commands):
                    ready = next((sign for pattern, sign in SERVICES if re.search(pattern, command)), None)
                    if ready is None:
                        place.run(command)
                    else:
                        process = place.serve(command, ready, number)
                        services.callback(end, process)
        case language:
            pytest.fail(
                f"{where}: nobody knows how to run {language or 'this'}: label the block, ```text if printed"
            )


def test_no_two_pages_begin_a_run_of_one_name() -> None:
    begun: dict[str, dict[str, str]] = {}
    for page in PAGES:
        for command in (command for block in blocks(page.read_text()) for command in block.commands):
            if found := re.match(r"(guiagent (?:train|eval|demonstrate|compare) .*)--run (\S+)", command):
                begun.setdefault(found[2], {}).setdefault(found[1], page.name)
    assert len(begun) > 30
    shared = {run: by for run, by in begun.items() if len(set(by.values())) > 1}
    assert not shared, "who reads both pages is refused by the second"


def test_what_is_saved_is_used_on_its_page() -> None:
    for page in PAGES:
        found = blocks(page.read_text())
        for saved in (block for block in found if block.file):
            assert saved.language in SAVED, saved
            used = "".join(one.text for one in found if one.language in ("sh", "python"))
            assert saved.file.split("/")[0] in used, f"{page.name}: no command reads {saved.file}"


@pytest.mark.parametrize(
    ("page", "language", "file", "text"),
    [
        ("# A\n    guiagent ps\n\ntext", "sh", "", "guiagent ps\n"),
        ("text:\n\n    A=1 guiagent ps   # who\n    b\n", "sh", "", "A=1 guiagent ps   # who\nb\n"),
        ("```toml a.toml\n[x]\n```\n", "toml", "a.toml", "[x]\n"),
        ("```\nguiagent ps\n```", "sh", "", "guiagent ps\n"),
        ("```\n[1/5] farm\n```", "text", "", "[1/5] farm\n"),
        ("```\nready\n```", "", "", "ready\n"),
    ],
)
def test_blocks_are_told_apart(page: str, language: str, file: str, text: str) -> None:
    (block,) = blocks(page)
    assert (block.language, block.file, block.text) == (language, file, text)


def test_what_goes_on_with_a_list_is_no_block() -> None:
    assert blocks("- a point\n    that goes on\n\n1. another\n") == []
    (block,) = blocks("```sh\nguiagent a \\\n  --b  # why\n# only words\nguiagent c '#d'\n```")
    assert block.commands == ["guiagent a --b", "guiagent c '#d'"]
