"""Harbor's task folders: what is read of them, by whom they may be written, and what their rewards may be."""

import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import xxhash

from devices.drivers import desktop
from eval.suites import find_suite
from guiagent.actions import Action, Done, Shell
from guiagent.cli import app
from guiagent.client.still import StillDevice
from guiagent.episode import run_episode
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.policies import ScriptedPolicy
from guiagent.protocols import Provable
from rewards.audit import audit
from rewards.catalogue import find_taskset, training_names
from rewards.tasksets.harbor import Harbor, HarborTask, image, reward
from rewards.tasksets.harbor.folder import below, load
from rewards.tasksets.harbor.task import copies
from tests.support.desktops import NO_FRAME, running

TASKS = Path("tests/support/harbor_tasks").resolve()


def folder(where: Path, **files: str | None) -> Path:
    """A whole task folder, with files replaced, or left out where they are None."""
    whole: dict[str, str | None] = {
        "task.toml": "",
        "instruction.md": "Do it.",
        "environment/Dockerfile": "FROM debian:bookworm",
        "tests/test.sh": "#!/bin/bash\necho 1 >/logs/verifier/reward.txt\n",
    }
    for name, text in (whole | files).items():
        if text is not None:
            path = where / "task" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return where / "task"


def lacks(where: Path, **files: str | None) -> str:
    return "; ".join(load(folder(where, **files)).lacks)


# -- what is read --------------------------------------------------------------------------------------------


def test_a_folder_is_read_with_its_limits_and_what_it_lacks() -> None:
    runs, builds = (load(TASKS / name) for name in ("write-a-file", "needs-a-build"))
    assert runs.instruction.startswith("Add the numbers") and not runs.lacks and runs.solvable
    assert (runs.agent_s, runs.verifier_s, runs.metadata["difficulty"]) == (300, 60, "easy")
    assert (runs.workdir, runs.env["verifier"]) == ("/app", {"WANTED": "7"})
    assert builds.lacks[0] == "a value for the variable KEY" and "RUN apt-get" in builds.lacks[1]
    assert not builds.solvable and builds.instruction == "Say how many cows there are.\n"


@pytest.mark.parametrize(
    ("toml", "missing"),
    [
        ("[environment]\ngpus = 1", "GPUs"),
        ('[environment]\nos = "windows"', "the system 'windows'"),
        ('[[environment.mcp_servers]]\nname = "x"', "MCP servers"),
        ('[environment.healthcheck]\ncommand = "true"', "a health check"),
        ('[verifier]\nenvironment_mode = "separate"', "a verifier's own container"),
        ('[solution.env]\nA = "${A}"\n[verifier.env]\nA = "b"', "a value for the variable A"),
        ('[[steps]]\nname = "first"', "several steps"),
        ("[agent]\ntimeout_sec = 60.0", ""),
    ],
)
def test_what_a_desktop_has_not_is_said(tmp_path: Path, toml: str, missing: str) -> None:
    assert lacks(tmp_path, **{"task.toml": toml}) == missing


@pytest.mark.parametrize(
    ("dockerfile", "missing"),
    [
        ("FROM python:3.12-slim\nUSER root\nCMD sh", ""),
        ("FROM --platform=linux/amd64 docker.io/library/ubuntu:24.04", ""),
        ("FROM example.org/somebody/cows:1", "the image 'example.org/somebody/cows:1'"),
        ("CMD true", "a FROM in its Dockerfile"),
        ("FROM debian\n# RUN no\nRUN a && \\\n  b", "'RUN a && b' (Dockerfile, line 3)"),
        ("FROM debian\nFROM debian", "'FROM debian' (Dockerfile, line 2)"),
        ("FROM debian\nCOPY --from=x /a /b", "'COPY --from=x /a /b' (Dockerfile, line 2)"),
        ("FROM debian\nADD https://example.org/x /x", "'ADD https://example.org/x /x'"),
        ("FROM debian\nCOPY ../../etc/passwd /x", "'COPY ../../etc/passwd /x'"),
        ("FROM debian\nCOPY *.txt /x/", "'COPY *.txt /x/'"),
        ("FROM debian\nCOPY a /x/../../y", "'COPY a /x/../../y'"),
        ("FROM debian\nENV A=$B", "'ENV A=$B'"),
        ('FROM debian\nCOPY "a /x', "'COPY \"a /x'"),
    ],
)
def test_a_dockerfile_is_an_image_and_files_or_says_what_else(dockerfile: str, missing: str) -> None:
    found = "; ".join(image.read(dockerfile).lacks)
    assert found.startswith(missing) and bool(found) == bool(missing)


def test_copies_go_where_docker_puts_them() -> None:
    found = image.read(
        "FROM debian\nWORKDIR /app\nWORKDIR src\nENV A=1 B='2 3'\nENV C the rest\n"
        'COPY a.txt .\nCOPY ["b c.txt", "/other/"]\nCOPY --chown=1:1 d.txt e.txt\nADD . /all\nCOPY f /app\n'
    )
    assert found.workdir == "/app/src" and found.env == {"A": "1", "B": "2 3", "C": "the rest"}
    assert [(one.source, one.target, one.into) for one in found.copied] == [
        ("a.txt", "/app/src", True),
        ("b c.txt", "/other", True),
        ("d.txt", "/app/src/e.txt", False),
        ("", "/all", False),
        ("f", "/app", True),
    ]


def test_an_image_without_a_dockerfile_gets_the_environment(tmp_path: Path) -> None:
    toml = '[environment]\ndocker_image = "debian:bookworm"\n'
    files: dict[str, str | None] = {
        "environment/Dockerfile": None,
        "environment/a.txt": "a",
        "task.toml": toml,
    }
    assert lacks(tmp_path, **files) == "the image's own working folder"
    assert "a Dockerfile or image" in lacks(tmp_path, **files | {"task.toml": ""})
    assert not lacks(tmp_path, **files | {"task.toml": toml + 'workdir = "/app"'})


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"instruction.md": None}, "instruction.md is missing"),
        ({"tests/test.sh": None}, "tests/test.sh is missing"),
        ({"task.toml": "= 1"}, "is no task.toml of Harbor's"),
        ({"task.toml": "agent = 1"}, "$.agent"),
        ({"task.toml": "[agent]\ntimeout_sec = nan"}, "$.agent.timeout_sec"),
        ({"task.toml": "[agent]\ntimeout_sec = -1.0"}, "$.agent.timeout_sec"),
        ({"task.toml": "a = " + "9" * 5000}, "is no task.toml of Harbor's"),
        ({"task.toml": "a = " + "[" * 5000}, "is no task.toml of Harbor's"),
        ({"task.toml": "#" * (1 << 20) + "#"}, "has more than 1048576 bytes"),
        ({"task.toml": '[verifier.env]\n"-S" = "a"'}, "'-S' is no variable"),
        ({"task.toml": '[verifier.env]\nA = "\\u0000"'}, "'A' is no variable"),
        ({"task.toml": '[environment]\nworkdir = "../x"'}, "workdir '../x' is no path"),
        ({"task.toml": "[metadata.guiagent]\nsuite = 1"}, "metadata.guiagent"),
    ],
)
def test_a_bad_folder_is_one_line(tmp_path: Path, files: dict[str, str | None], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(folder(tmp_path, **files))
    assert told in str(refused.value) and "\n" not in str(refused.value)


def test_no_file_of_the_host_comes_in_by_a_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    for name in ("environment/secret", "tests/secret", "instruction.md", "task.toml"):
        made = folder(tmp_path)
        (made / name).unlink(missing_ok=True)
        (made / name).symlink_to(secret)
        with pytest.raises(UsageError, match=r"plain file|cannot read"):
            load(made)
        shutil.rmtree(made)
    made = folder(tmp_path)
    odd = os.path.join(os.fsencode(made), b"tests", b"\xff")
    Path(os.fsdecode(odd)).touch()
    with pytest.raises(UsageError, match="no printable name"):
        load(made)
    shutil.rmtree(made / "tests")
    (made / "tests").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="is a link"):
        load(made)
    (made / "tests").unlink()
    (made / "tests").mkdir()
    os.mkfifo(made / "tests" / "test.sh")
    with pytest.raises(UsageError, match="no plain file"):
        load(made)
    (tmp_path / "linked").symlink_to(made)
    assert [path.name for path in below(tmp_path)] == ["task"]


def test_a_folder_without_tasks_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none in it has a task\.toml"):
        Harbor(tmp_path)


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("reward.txt", b" 1\n", 1.0),
        ("reward.txt", b"0.25", 0.25),
        ("reward.json", b"1", 1.0),
        ("reward.json", b'{"only": 0.5}', 0.5),
        ("reward.json", b'{"speed": 1, "reward": 0}', 0.0),
    ],
)
def test_a_reward_is_read(name: str, data: bytes, found: float) -> None:
    assert reward.read(name, data)[0] == found


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("reward.txt", b"", "holds no number"),
        ("reward.txt", b"well done", "holds no number: b'well done'"),
        ("reward.txt", b"nan", "is no number"),
        ("reward.txt", b"inf", "a score is between 0 and 1"),
        ("reward.txt", b"1e999", "a score is between 0 and 1"),
        ("reward.txt", b"\xff", "holds no number"),
        ("reward.txt", b"1" * 4097, "has more than 4096 bytes"),
        ("reward.txt", b"2", "a score is between 0 and 1"),
        ("reward.txt", b"-0.5", "a score is between 0 and 1"),
        ("reward.json", b"true", "is no number"),
        ("reward.json", b'"1"', "is no number"),
        ("reward.json", b"NaN", "is no number"),
        ("reward.json", b'{"reward": NaN}', "is no number"),
        ("reward.json", b'{"reward": {"reward": 1}}', "is no number"),
        ("reward.json", b"{}", "holds 0 numbers"),
        ("reward.json", b"[1]", "is no number"),
        ("reward.json", b'{"a": 1, "b": 1}', "none of them is called 'reward'"),
        ("reward.json", b"[" * 4000, "holds no number"),
        ("reward.json", b"9" * 4000, "a score is between 0 and 1"),
    ],
)
def test_what_is_no_reward_is_one_line(name: str, data: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told) as refused:
        reward.read(name, data)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 200


# -- on a desktop --------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[desktop.DesktopDevice]:
    async with running() as started:
        yield started


async def played(device: desktop.DesktopDevice, task: HarborTask, *actions: Action) -> float | Fault | None:
    """What an episode is worth, or its fault."""
    episode = await run_episode(
        task, device, ScriptedPolicy([*actions, Done()]), keep_frame=xxhash.xxh3_128_hexdigest, spec=NO_FRAME
    )
    if episode.fault is not None:
        return episode.fault
    assert episode.score is not None and episode.score.source == "check"
    return episode.score.value


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_the_solution_proves_the_test_and_an_agent_is_scored(device: desktop.DesktopDevice) -> None:
    tasks = find_taskset(f"harbor:{TASKS}")
    task = tasks.task("write-a-file", 0)
    assert isinstance(task, Provable) and isinstance(task, HarborTask)
    proof = await audit(lambda: task, device)
    paid = "the exploit 'leaves a program that writes the reward' scored 1.0"  # as in Harbor's shared mode
    assert proof.oracle == 1 and [line.partition(":")[0] for line in proof.failures] == [paid], proof
    for line, value in (("echo 7 > /app/sum.txt", 1.0), ("echo 8 > /app/sum.txt", 0.0)):
        assert await played(device, task, Shell(command=line)) == value
    builds = tasks.task("needs-a-build", 0)
    assert not isinstance(builds, Provable)
    fault = await played(device, builds)  # type: ignore[arg-type]
    assert isinstance(fault, Fault) and fault.code == "unsupported" and "RUN apt-get" in fault.message


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("test", "code"),
    [
        ("true", "no_reward"),
        ("exit 3", "no_reward"),
        ("echo nan > reward.txt", "bad_reward"),
        ("echo '{}' > reward.json; echo 1 > reward.txt", "bad_reward"),
        ("head -c 400M /dev/zero > reward.txt", "bad_reward"),
        ("mkfifo reward.txt", "no_reward"),
        ("echo 1 > /tmp/one; ln -s /tmp/one reward.txt", "no_reward"),
        ("ln -s /dev/zero reward.json", "no_reward"),
        ("sleep 30", "timeout"),
    ],
)
async def test_a_test_without_a_reward_is_a_fault(
    device: desktop.DesktopDevice, tmp_path: Path, test: str, code: str
) -> None:
    made = folder(
        tmp_path,
        **{
            "tests/test.sh": f"#!/bin/bash\ncd /logs/verifier\n{test}\n",
            "task.toml": "[verifier]\ntimeout_sec = 3.0",
        },
    )
    fault = await played(device, Harbor(made).task("task", 0))
    assert isinstance(fault, Fault) and (fault.origin, fault.code) == ("task", code), fault


@pytest.mark.asyncio(loop_scope="module")
async def test_what_an_agent_left_is_no_reward(device: desktop.DesktopDevice, tmp_path: Path) -> None:
    made = folder(tmp_path, **{"tests/test.sh": "#!/bin/bash\ncat /tests/reward > /logs/verifier/reward.txt"})
    planted = (
        "rm -rf /logs/verifier /tests; mkdir -p /tests /tmp/v; echo 1 | tee /tests/reward /tmp/v/reward.txt"
    )
    fault = await played(
        device,
        Harbor(made).task("task", 0),
        Shell(command=f"{planted}; ln -s /tmp/v /logs/verifier"),
    )
    assert isinstance(fault, Fault) and fault.code == "bad_reward", fault  # its empty one


async def test_it_wants_a_desktop() -> None:
    task = Harbor(TASKS).task("write-a-file", 0)
    with pytest.raises(UsageError, match="needs a desktop isolated from this machine"):
        await task.setup(StillDevice(), NO_FRAME)


# -- as a suite ----------------------------------------------------------------------------------------------


def written(where: Path, *words: str) -> str:
    app(["harbor", "miniwob-demo", "--out", str(where), *words], standalone_mode=False)
    return f"harbor:{where}"


def test_the_tasks_of_others_are_a_suite_on_desktops() -> None:
    suite = find_suite(f"harbor:{TASKS}")
    assert suite.tasks == ("needs-a-build", "write-a-file") and suite.device == "desktop"
    assert set(suite.grants) == {"shell", "files"}
    assert training_names(find_taskset(suite.taskset), ("*",)) == ("write-a-file",)
    with pytest.raises(UsageError, match="has no task 'x'"):
        find_taskset(suite.taskset).task("x", 0)


def test_ours_are_the_suite_that_they_were_written_from(tmp_path: Path) -> None:
    name = written(tmp_path / "out", "--split", "evaluation", "--episodes", "2")
    suite, first = find_suite(name), find_suite("miniwob-demo")
    assert (suite.tasks, list(suite.seeds())) == (first.tasks, list(first.seeds(2)))
    assert (suite.taskset, suite.device, suite.name) == ("miniwob", "browser", name)
    shutil.rmtree(next((tmp_path / "out").glob("click-test-*")))
    with pytest.raises(UsageError, match="not the same seeds"):
        find_suite(name)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 5}, "write it with --split evaluation"),
        ({"task": "no-such"}, "has no task 'no-such'"),
        ({"suite": "no-such"}, "no suite 'no-such'"),
        ({"suite": "osworld:/"}, "was written from osworld:/: name that suite"),
    ],
)
def test_what_is_not_as_we_wrote_it_is_one_line(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    said = {"suite": "miniwob-demo", "task": "click-test-2", "seed": find_suite("miniwob-demo").first_seed}
    lines = [f"{key} = {json.dumps(value)}" for key, value in (said | change).items()]
    folder(tmp_path, **{"task.toml": "[metadata.guiagent]\n" + "\n".join(lines)})
    with pytest.raises(UsageError, match=told):
        find_suite(f"harbor:{tmp_path}")


def test_ours_and_others_are_not_one_suite(tmp_path: Path) -> None:
    name = written(tmp_path / "out", "--split", "evaluation", "--episodes", "1")
    folder(tmp_path / "out")
    with pytest.raises(UsageError, match="mixes"):
        find_suite(name)


def test_check_prints_a_row_a_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app(["tasks", "check", str(TASKS)], standalone_mode=False)
    first, second, *_, summary = capsys.readouterr().out.splitlines()
    assert "missing: a value for the variable KEY; 'RUN apt-get" in first
    row = "write-a-file  debian:bookworm-slim  4 files  solution  supported"
    assert second == f"{row}; flaws: test-beside-agent"
    assert summary.startswith("2 loaded, 1 supported")
    shutil.copytree(TASKS, tmp_path / "tasks")
    (tmp_path / "tasks" / "needs-a-build" / "instruction.md").unlink()
    with pytest.raises(SystemExit) as ended:
        app(["tasks", "check", "--json", str(tmp_path / "tasks")])
    shown = capsys.readouterr()
    assert ended.value.code == 2 and "instruction.md is missing" in shown.err
    assert [row["id"] for row in json.loads(shown.out)["tasks"]] == ["write-a-file"]


def test_a_file_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    made = folder(tmp_path, **{"environment/Dockerfile": "FROM debian\nCOPY nothing.txt /x"})
    with pytest.raises(FaultError, match=r"COPY nothing\.txt"):
        copies(load(made))
