"""Where a suite is run: devices of another kind, image or size, a config, a pool; what it lacks there; and
`tasks preflight`."""

from pathlib import Path

import pytest

from eval.suites import find_suite
from guiagent.cli.common.farm import require_applications
from guiagent.cli.common.place import Place
from guiagent.cli.evaluate.preflight import verdict
from guiagent.errors import Fault, MissingProgram, UsageError
from guiagent.types import Score, Trajectory
from tests.support.osworld_assets import TASKS

SUITE = find_suite(f"osworld:{TASKS}")


def test_a_word_says_kind_image_and_size() -> None:
    place = Place(device="vm:osworld-desktop@1024x768")
    moved = place.of(SUITE)
    assert (moved.device, moved.screen, moved.digest) == ("vm", (1024, 768), SUITE.digest)
    assert place.words(moved, 3) == ["vm:osworld-desktop=3@1024x768"]
    assert Place().of(SUITE) is SUITE and Place().words(SUITE, 2) == ["desktop=2@1920x1080"]
    assert Place("desktop").words(SUITE, 2) == ["desktop=2"]
    assert Place("desktop=1@800x600").words(SUITE, 2) == ["desktop=1@800x600"]
    sites = find_suite("web", ["data-report", "tracker-resolve"])
    assert Place().words(sites, 3) == ["browser=3@1280x800,sites=data+tracker"]


def test_a_config_brings_its_devices(tmp_path: Path) -> None:
    toml = tmp_path / "farm.toml"
    toml.write_text(
        '[[devices]]\nkind = "browser"\n[[devices]]\nkind = "desktop"\nwidth = 1280\nheight = 800\n'
        'rootfs = "/srv/ubuntu"\n'
    )
    place = Place(config=toml)
    assert place.of(SUITE).screen == (1280, 800)
    assert place.words(SUITE, 4) == ["--config", str(toml)]
    assert Place("browser", toml).of(SUITE).device == "browser"
    with pytest.raises(UsageError, match="has no phone"):
        Place("phone", toml).of(SUITE)


def test_what_contradicts_itself_or_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave one out"):
        Place(config=tmp_path / "x.toml", pool="http://127.0.0.1:1").of(SUITE)
    with pytest.raises(UsageError, match="names no devices"):
        Place(device="a desktop").of(SUITE)


def test_what_a_suite_lacks_is_one_line_before_anything_starts(tmp_path: Path) -> None:
    programs = tmp_path / "usr/bin"
    programs.mkdir(parents=True)
    (programs / "xterm").touch()
    terminal = find_suite("desktop", ["os-*"])
    require_applications(terminal, tmp_path)
    both = find_suite("desktop", ["os-*", "gimp-*", "vlc-*"])
    with pytest.raises(MissingProgram) as raised:
        require_applications(both, tmp_path)
    lacking = [task for task in both.tasks if task.startswith(("gimp-", "vlc-"))]
    assert str(raised.value).startswith(f"{len(lacking)} of {len(both.tasks)} tasks")
    assert "(gimp, vlc): sudo scripts/farm desktop applications" in str(raised.value)


def test_verdicts_of_an_agent_that_does_nothing() -> None:
    def of(score: Score | None, fault: Fault | None = None) -> str:
        return str(verdict(Trajectory("1", "t", 0, "", [], "agent_done", score, fault=fault)))

    assert of(Score(0.0)) == "right    t"
    assert of(Score(0.0, evidence={"notes": ["'x' ended with 1: no"]})).endswith("'x' ended with 1: no")
    assert of(Score(0.5)) == "unsound  t  an agent that does nothing scored 0.5"
    assert (
        of(None, Fault("task", "setup_failed", "step 1:\nno"))
        == "fault    t  task (setup_failed): step 1: no"
    )
