"""Every dialect keeps to what is known of it, seeded bugs of coordinates are found, parsing runs nothing."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from guiagent.actions import Click
from guiagent.cli import app
from guiagent.cli.common.policy import PolicySettings, open_policy
from guiagent.dialects import DIALECTS, find_dialect
from guiagent.dialects.conformance import PROBES, defects, expected, farthest_click, golden, misread
from guiagent.dialects.coordinates import CoordinateSpace, Size
from guiagent.errors import DialectError, UsageError
from guiagent.types import Observation
from tests.support.model_stand_in import stand_in

HD = (1920, 1080)


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_keeps_to_what_is_known_of_it(name: str) -> None:
    assert defects(name, find_dialect(name)) == []


def test_what_is_known_names_every_dialect_and_only_probes_that_there_are() -> None:
    known = expected()
    assert list(known) == list(DIALECTS)
    for name, one in known.items():
        assert {*one["exact"], *one["lossy"]} <= set(PROBES) and len(one["replies"]) >= 3, name
        assert "click" in one["exact"], name


@dataclass(frozen=True, slots=True)
class OffByScale(CoordinateSpace):
    """Reads as if the picture were a hundredth smaller than it is."""

    def to_device(self, point: tuple[float, float], size: Size) -> tuple[int, int]:
        return CoordinateSpace.to_device(self, (point[0] * 1.01, point[1] * 1.01), size)


@dataclass(frozen=True, slots=True)
class Swapped(CoordinateSpace):
    """Takes x for y both ways, which no round trip can see."""

    def to_device(self, point: tuple[float, float], size: Size) -> tuple[int, int]:
        x, y = CoordinateSpace.to_device(self, point, size)
        return min(y, size[0] - 1), min(x, size[1] - 1)

    def from_device(self, pixel: tuple[int, int], size: Size) -> tuple[int, int]:
        x, y = CoordinateSpace.from_device(self, pixel, size)
        return y, x


def mutants(right: CoordinateSpace) -> dict[str, CoordinateSpace]:
    """Spaces with a bug: scaled, swapped, and that of another family, which agrees with itself."""
    fields = (right.kind, right.factor, right.min_pixels, right.max_pixels)
    others = ("norm999", "norm1000", "frame", "fitted", "resized")
    wrong = {f"as {kind}": CoordinateSpace(kind) for kind in others if kind != right.kind}
    return {"scaled": OffByScale(*fields), "swapped": Swapped(*fields), **wrong}


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("bug", ["scaled", "swapped"])
def test_a_seeded_coordinate_bug_is_found(name: str, bug: str) -> None:
    dialect = find_dialect(name)
    dialect.space = mutants(dialect.space)[bug]
    assert defects(name, dialect)


@pytest.mark.parametrize("name", DIALECTS)
def test_the_coordinates_of_another_family_are_found(name: str) -> None:
    for bug, space in mutants(find_dialect(name).space).items():
        dialect = find_dialect(name)
        dialect.space = space
        assert defects(name, dialect), bug


def test_a_click_lands_within_a_pixel_where_the_units_are_as_fine_as_pixels() -> None:
    for name in DIALECTS:
        dialect = find_dialect(name)
        landing = farthest_click(dialect)
        most = {"frame": 0, "resized": 1}.get(dialect.space.kind, 2)  # the others' units are up to 4 px wide
        assert landing.worst <= 1 and landing.pixels <= most


def test_replies_of_a_file_are_known_or_only_read() -> None:
    dialect = find_dialect("json")
    lines = [
        '{"type": "click", "x": 1, "y": 2}',
        '{"reply": "{\\"type\\": \\"wait\\"}", "actions": [{"type": "wait"}]}',
        '{"reply": "{\\"type\\": \\"wait\\"}", "actions": [{"type": "wait", "ms": 5}]}',
        '{"reply": "hello", "size": [160, 210], "actions": null}',
        "hello",
    ]
    found = [misread(dialect, known) for known in golden(lines)]
    assert [one is None for one in found] == [True, True, False, True, False]
    for bad in ('{"reply": 1}', '{"reply": "a", "size": [1]}', '{"reply": "a", "actions": [{"type": "?"}]}'):
        with pytest.raises(DialectError, match="known reply"):
            list(golden([bad]))


def test_the_commands_list_and_check(tmp_path: Path) -> None:
    run = CliRunner().invoke
    listed = run(app, ["dialects", "list"])
    assert [line.split()[0] for line in listed.output.splitlines()] == list(DIALECTS)
    checked = run(app, ["dialects", "check", "openai-computer"])
    assert checked.exit_code == 0 and "exact    click  " in checked.output
    assert isinstance(run(app, ["dialects", "check", "esperanto"]).exception, UsageError)
    (tmp_path / "replies").write_text('{"type":"click","x":1,"y":2}\n\n{"type":"fly"}\n')
    words = ["dialects", "check", "openai-computer", "--file", str(tmp_path / "replies")]
    done = subprocess.run([sys.executable, "-m", "guiagent.cli", *words], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "openai-computer: 1 not as it should be, first line 2 of" in done.stderr
    assert "ok       line 1" in done.stdout and "bad      line 2" in done.stdout


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_model_server_may_speak_any_of_them(name: str) -> None:
    """The path of `guiagent eval --policy http://... --dialect NAME`."""
    shown = Observation(*HD, media_type="image/png", frame=b"\x89PNG pixels")
    click = Click(x=0, y=0)
    with stand_in(lambda body: find_dialect(name).render([click], HD)) as server:
        settings = PolicySettings(temperature=0.0, dialect=name)
        async with open_policy(f"{server.url}/v1#model", settings) as policy:
            output = await policy.act("e", "do it", [], shown)
    assert output.error is None and output.actions == [click.model_dump(mode="json")]
    (body,) = server.bodies
    assert "do it" in json.dumps(body["messages"])
    assert (body["messages"][0]["role"] == "system") == bool(find_dialect(name).system)


_AUDIT = """
import json, sys
from guiagent.dialects import DIALECTS, find_dialect
from guiagent.errors import DialectError
texts = json.load(sys.stdin)
seen, on = set(), False

def hear(event, args):
    if on and not (event == "open" and args[0] == "<unknown>"):
        seen.add(event)

sys.addaudithook(hear)  # CPython looks for the line of a SyntaxError in a file of that name, whatever it is
for on in (False, True):  # the first round is the warm-up: imports and caches
    for name in DIALECTS:
        dialect = find_dialect(name)
        for text in texts:
            try:
                dialect.parse(text, (160, 224))
            except DialectError:
                pass
on = False
print(json.dumps(sorted(seen)))
"""


def test_parsing_any_dialect_runs_no_code_and_opens_nothing() -> None:
    texts = [one["reply"] for known in expected().values() for one in known["replies"]]
    evil = "__import__('os').system('id')"
    texts += [evil, f"pyautogui.click({evil})", f"mouse_click(1, {evil})", f"Action: click({evil})"]
    texts += [f"```python\nimport os\n{evil}\n```", f"<action>exec({evil!r})</action>", "open('/etc/passwd')"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _AUDIT],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        "compile"
    ]  # raised by ast.parse itself; no exec, open, import, subprocess
