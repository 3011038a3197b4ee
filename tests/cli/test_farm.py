"""The commands of a farm, as a person types them: up, ps, lease, do, shot, reset, logs, and their kin."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from guiagent.actions import Click, KeyChord, Open, Scroll, Type
from guiagent.cli.farm.devices import parse_action
from guiagent.cli.farm.up import is_loopback
from guiagent.client.local_pool import read_endpoint
from guiagent.errors import UsageError
from guiagent.storage.trajectories import TrajectoryStore


class Shell:
    """Runs `guiagent ...` with a state folder of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith("GUIAGENT_")
        }
        self.environment["GUIAGENT_HOME"] = str(home)

    def __call__(self, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "guiagent.cli", *words],
            capture_output=True,
            text=True,
            env=self.environment | variables,
            timeout=120,
        )

    def says(self, *words: str, **variables: str) -> str:
        done = self(*words, **variables)
        assert (done.returncode, done.stderr) == (0, "") or words[0] == "lease", done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """With a farm of three simulated devices behind it, on which somebody has to approve a reboot."""
    shell = Shell(tmp_path_factory.mktemp("home"))
    rules = tmp_path_factory.mktemp("rules") / "guarded.toml"
    rules.write_text('[[guardrails.approve]]\nname = "reboots"\nactions = ["exec"]\ntext = ["reboot"]\n')
    farm = subprocess.Popen(
        [sys.executable, "-m", "guiagent.cli", "up", "sim=3", "--port", "0", "--config", str(rules)],
        env=shell.environment,
        stdout=subprocess.DEVNULL,
    )
    give_up = time.monotonic() + 60
    while read_endpoint(shell.home) is None:
        assert time.monotonic() < give_up and farm.poll() is None
        time.sleep(0.05)
    yield shell
    if farm.poll() is None:
        farm.terminate()
    assert farm.wait(20) == 0


def test_a_device_is_taken_driven_looked_at_and_given_back(shell: Shell, tmp_path: Path) -> None:
    device = shell.says("lease", "sim", "--grant", "shell", "--needs", "a11y").strip()
    assert device.startswith("sim-")
    row = next(line for line in shell.says("ps").splitlines() if line.startswith(device))
    assert "leased" in row and "command line" in row
    shell.says("reset", device, "--seed", "3")
    shell.says("do", device, "type", "some words", "submit=true")
    shell.says("do", device, "click", "40", "100")
    for name in ("a.png", "b.jpg"):
        shell.says("shot", device, str(tmp_path / name))
        assert Image.open(tmp_path / name).size == (320, 240)
    refused = shell("shot", device, "/nonexistent/x.png")
    assert refused.stderr == "guiagent: cannot write /nonexistent/x.png: No such file or directory\n"
    assert refused.returncode == 2
    assert shell.says("exec", device, "echo", "there") == "there\n"
    assert shell("exec", device, "false").returncode == 1
    log = shell.says("logs", device)
    assert "type" in log and "click x=40 y=100" in log and "some words" not in log
    shell.says("release", device)
    assert shell("do", device, "wait").returncode == 2
    assert not list((shell.home / "leases").iterdir())


def test_what_the_commands_do_is_recorded(shell: Shell, tmp_path: Path) -> None:
    record = tmp_path / "record"
    device = shell.says("lease", "sim", "--record", str(record)).strip()
    shell.says("reset", device, "--seed", "3")
    shell.says("do", device, "type", "some words")
    shell.says("click-on", device, "A", "--role", "button")
    early = shell("replay", str(record))
    assert (early.returncode, early.stdout) == (2, "")
    assert "an episode is still being recorded" in early.stderr
    shell.says("release", device)
    told = shell.says("replay", str(record))
    assert "1 episodes, 2 steps; 3 pictures" in told
    with TrajectoryStore(record / "trajectories", readonly=True) as store:
        [one] = store
    assert (one.seed, [step.policy.actions[0]["type"] for step in one.steps]) == (3, ["type", "click"])


def test_a_device_is_driven_by_its_elements(shell: Shell) -> None:
    device = shell.says("lease", "sim", "--needs", "a11y").strip()
    shell.says("do", device, "type", "caf\u00e9 \u001b[2J")
    [line] = shell.says("elements", device, "--role", "textbox").splitlines()
    assert line == r"textbox      160,24     'line' = 'caf\xe9 \x1b[2J'  editable focused"
    assert len(shell.says("elements", device).splitlines()) == 13
    shell.says("click-on", device, "A", "--role", "button")
    assert "2JA'" in shell.says("elements", device, "line")
    refused = shell("click-on", device, "Z")
    assert (refused.returncode, refused.stderr) == (2, "guiagent: there is no element 'Z' on the screen\n")
    shell.says("release", device)


def test_a_device_is_put_out_of_service_and_back(shell: Shell) -> None:
    shell.says("quarantine", "sim-2", "--reason", "cracked")
    farm = json.loads(shell.says("ps", "--json"))
    (device,) = [one for one in farm["devices"] if one["id"] == "sim-2"]
    assert (device["state"], device["reason"]) == ("quarantined", "cracked")
    shell.says("restore", "sim-2")
    shell.says("drain", "sim-2")
    give_up = time.monotonic() + 20
    while "drained" not in shell.says("ps"):
        assert time.monotonic() < give_up
    shell.says("restore", "sim-2")


def test_somebody_approves_what_an_agent_waits_for(shell: Shell) -> None:
    device = shell.says("lease", "sim", "--grant", "shell").strip()

    def decided(*words: str) -> tuple[int, str]:
        agent = subprocess.Popen(
            [sys.executable, "-m", "guiagent.cli", "exec", device, "echo", "reboot \x1b[2J"],
            env=shell.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        give_up = time.monotonic() + 30
        while not (waiting := shell.says("approvals")):
            assert time.monotonic() < give_up and agent.poll() is None
        wish, of, *_ = waiting.split()
        assert of == device and "reboots: " in waiting and "exec echo" in waiting and "\x1b" not in waiting
        shell.says("approve", wish, *words)
        said, _ = agent.communicate(timeout=30)
        return agent.returncode, said

    assert decided() == (0, "reboot \x1b[2J\n")
    assert decided("--refuse") == (2, "guiagent: a person refused it: reboots\n")
    assert "nothing that is called 'x' waits" in shell("approve", "x").stderr
    shell.says("release", device)


def test_somebody_gives_a_device_back_to_the_agent_that_asked(shell: Shell) -> None:
    asks = "import guiagent\nwith guiagent.connect() as farm, farm.lease('sim') as device:\n"
    asks += "    answer = device.ask_human('log in \\x1b[2J')\n    print(answer.state, answer.note)\n"
    agent = subprocess.Popen(
        [sys.executable, "-c", asks], env=shell.environment, stdout=subprocess.PIPE, text=True
    )
    give_up = time.monotonic() + 30
    while not (waiting := shell.says("wanted")):
        assert time.monotonic() < give_up and agent.poll() is None
    help, *_ = waiting.split()
    assert r"log in \x1b" in waiting and "\x1b" not in waiting
    shell.says("give-back", help, "--note", "done by hand")
    said, _ = agent.communicate(timeout=30)
    assert (agent.returncode, said) == (0, "done done by hand\n")
    assert "nobody asks for a person under this id" in shell("give-back", help).stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["do", "sim-0", "click", "1", "1"], 2, "you do not hold sim-0"),
        (["do", "../etc", "click", "1", "1"], 2, "is not the name of a device"),
        (["logs", "sim-9"], 2, "there is no such device"),
        (["lease", "toaster"], 2, "toaster"),
        (["shot", "sim-0", "x.gif"], 2, "name a .png or .jpg file"),
        (["ps", "--pool", "/nonexistent"], 2, "no endpoint.json in /nonexistent"),
        (["ps", "--pool", "localhost:8700"], 2, "by its address (http://HOST:PORT)"),
        (["down", "--pool", "http://127.0.0.1:9"], 2, "GUIAGENT_TOKEN"),
        (["ps", "--pool", "http://127.0.0.1:9"], 2, "GUIAGENT_TOKEN"),
        (["up", "browser=none"], 2, "names no devices"),
        (["up", "--no-devices", "browser"], 2, "contradict"),
        (["host"], 2, "--pool"),
    ],
)
def test_mistakes_are_one_line_with_the_way_out(shell: Shell, words: list[str], code: int, says: str) -> None:
    done = shell(*words)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("guiagent: ") and says in done.stderr


@contextlib.contextmanager
def up(shell: Shell, *words: str, stderr: int | None = None) -> "Iterator[subprocess.Popen[str]]":
    """`guiagent up WORDS`, ready."""
    farm = subprocess.Popen(
        [sys.executable, "-m", "guiagent.cli", "up", "--port", "0", *words],
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    assert farm.stdout is not None
    try:
        assert farm.stdout.readline().startswith("pool ready")
        yield farm
    finally:
        farm.terminate()
        farm.communicate(timeout=20)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.7", False),
        ("pool.example", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_a_pool_that_listens_off_loopback_says_so(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with up(shell, "sim", "--host", "0.0.0.0", stderr=subprocess.PIPE) as farm:
        assert farm.stderr is not None
        assert "for everybody who can reach it, without TLS" in farm.stderr.readline()


def test_down_stops_the_farm(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert "no pool of yours is running" in shell("down").stderr
    with up(shell, "sim") as farm:
        assert shell.says("down") == "pool stopped\n"
        assert farm.wait(10) == 0


def test_a_farm_from_a_file_is_found_like_any_other(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "home")
    toml = tmp_path / "farm.toml"
    toml.write_text('[[devices]]\nkind = "sim"\ncount = 2\n')
    with up(shell, "--config", str(toml)) as farm:
        assert shell.says("ps").count("sim-") == 2
        assert shell.says("down") == "pool stopped\n"
        assert farm.wait(10) == 0


def test_a_farm_with_its_state_elsewhere_says_how_to_find_it(tmp_path: Path) -> None:
    shell, folder = Shell(tmp_path / "home"), tmp_path / "elsewhere"
    with up(shell, "sim", "--state-dir", str(folder)) as farm:
        assert farm.stdout is not None
        assert farm.stdout.readline() == f"other commands find it with --pool {folder}\n"
        assert "no pool of yours is running" in shell("ps").stderr
        device = shell.says("lease", "sim", "--pool", str(folder)).strip()
        shell.says("do", device, "wait", "1", "--pool", str(folder))
        shell.says("release", device, GUIAGENT_POOL=str(folder))
        url = read_endpoint(folder).url
        token = read_endpoint(folder).token
        assert "is stopped on its own machine" in shell("down", "--pool", url, GUIAGENT_TOKEN=token).stderr
        assert shell.says("down", "--pool", str(folder)) == "pool stopped\n"
        assert farm.wait(10) == 0


@pytest.mark.parametrize(
    ("words", "action"),
    [
        (["click", "3", "4"], Click(x=3, y=4)),
        (["click", "3", "4", "count=2", "button=right"], Click(x=3, y=4, count=2, button="right")),
        (["type", "a=b"], Type(text="a=b")),
        (["type", "text=b", "clear=true"], Type(text="b", clear=True)),
        (["key", "Control", "a"], KeyChord(keys=("Control", "a"))),
        (["open", "https://example.org/?a=b"], Open(target="https://example.org/?a=b")),
        (['{"type": "scroll", "x": 1, "y": 2, "dy": 3}'], Scroll(x=1, y=2, dy=3)),
    ],
)
def test_an_action_is_typed_in_words(words: list[str], action: object) -> None:
    assert parse_action(words) == action


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["hit", "3"], "there is no action 'hit'"),
        (["click", "3"], "click: y: Field required"),
        (["click", "x", "4"], "click: x:"),
        (["move", "1", "2", "3"], "move takes x, y; '3' is one too many"),
        (["{"], "{: "),
    ],
)
def test_an_action_that_is_none_is_one_line(words: list[str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_action(words)
    assert str(caught.value).startswith(says) and "\n" not in str(caught.value)
