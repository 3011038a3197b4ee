"""OSWorld's metrics on sound, video, archives and programs: with the real ffmpeg and the real sandbox."""

import os
import shutil
import socket
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import docx
import numpy as np
import pytest
from numpy.typing import NDArray

from guiagent.errors import InfrastructureError
from rewards.checks import interpreter, metrics
from rewards.checks.archives import UnreadableError
from rewards.checks.metrics.general import processes, programs
from rewards.checks.metrics.general.sound import likeness
from rewards.checks.metrics.general.video import hashes

needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="there is no ffmpeg")
needs_sandbox = pytest.mark.skipif(
    bool(interpreter.why_no_sandbox()), reason=interpreter.why_no_sandbox() or "-"
)

RATE = 8000


def ffmpeg(*arguments: str | Path) -> None:
    subprocess.run(
        ["ffmpeg", "-v", "error", "-y", *map(str, arguments)], check=True, stdin=subprocess.DEVNULL
    )


def tune(seed: int, seconds: float = 3) -> NDArray[np.float64]:
    """Eight notes a second with overtones, at random."""
    random = np.random.default_rng(seed)
    time = np.arange(int(RATE * seconds)) / RATE
    pitch = 220 * 2 ** (random.integers(0, 24, int(seconds * 8) + 1)[(time * 8).astype(int)] / 12)
    partials = np.arange(1, 4)[:, None]
    tones: NDArray[np.float64] = (np.sin(2 * np.pi * pitch * time * partials) / partials).sum(axis=0) * 0.2
    return tones


def record(path: Path, samples: NDArray[np.float64], *options: str) -> Path:
    source = path.with_suffix(".raw")
    source.write_bytes(samples.astype("<f4").tobytes())
    ffmpeg("-f", "f32le", "-ar", str(RATE), "-ac", "1", "-i", source, *options, path)
    return path


@needs_ffmpeg
def test_how_alike_recordings_sound(tmp_path: Path) -> None:
    compare = metrics.load("compare_audios")
    gold = record(tmp_path / "gold.wav", tune(0))
    late = np.concatenate([np.zeros(2000), tune(0) * 0.3])
    assert compare(gold, gold) == pytest.approx(1, abs=1e-3)
    assert compare(record(tmp_path / "a.mp3", tune(0), "-b:a", "64k"), gold) > 0.85
    assert compare(record(tmp_path / "a.ogg", late, "-ar", "44100", "-ac", "2"), gold) > 0.85
    assert compare(record(tmp_path / "b.wav", tune(1)), gold) < 0.2
    assert compare(record(tmp_path / "c.wav", tune(0, 1.5)), gold) < 0.5
    assert compare(record(tmp_path / "d.wav", np.zeros(3 * RATE)), gold) == 0


@needs_ffmpeg
def test_tags(tmp_path: Path) -> None:
    tags = ("-metadata", "title=Missing You", "-metadata", "artist=Cheng Xiang")
    song = record(tmp_path / "song.mp3", tune(0, 0.5), *tags)
    check = metrics.load("check_mp3_meta")
    title, artist = {"method": "eq", "ref": "Missing You"}, {"method": "eq", "ref": "Cheng Xiang"}
    assert check(song, {"title": title, "artist": artist}) == 1
    assert check(song, {"title": title, "artist": title}) == 0
    assert check(song, {"album": title}) == 0
    assert check(record(tmp_path / "plain.mp3", tune(0, 0.5)), {"title": title}) == 0


def film(path: Path, *options: str, seconds: float = 6) -> Path:
    ffmpeg("-f", "lavfi", "-i", f"testsrc2=size=160x120:rate=10:duration={seconds}", *options, path)
    return path


@needs_ffmpeg
def test_whether_videos_show_the_same(tmp_path: Path) -> None:
    compare = metrics.load("compare_videos")
    gold = film(tmp_path / "gold.mp4")
    assert compare(gold, gold) == 1
    assert compare(film(tmp_path / "small.mkv", "-s", "80x60", "-r", "15"), gold) == 1
    assert compare(film(tmp_path / "turned.mp4", "-vf", "hflip,vflip"), gold) == 0
    assert compare(film(tmp_path / "short.mp4", seconds=3), gold) == 0
    assert compare(record(tmp_path / "sound.mp3", tune(0, 0.5)), gold) == 0


@needs_ffmpeg
def test_no_media(tmp_path: Path) -> None:
    gold, made = record(tmp_path / "gold.wav", tune(0, 0.5)), tmp_path / "made.mp3"
    rules = {"title": {"method": "ne", "ref": ""}}
    for garbage in (
        b"",
        b"garbage" * 100,
        b"#EXTM3U\n#EXTINF:1,\ngold.wav\n#EXT-X-ENDLIST\n",
        b"ffconcat version 1.0\nfile gold.wav\n",
        b"RIFF\x24\x00\x00\x00WAVEfmt ",
    ):
        made.write_bytes(garbage)
        assert metrics.load("check_mp3_meta")(made, rules) == 0
        with pytest.raises(UnreadableError):
            processes.decoded(made, "-f", "f32le")
    for name in ("compare_audios", "compare_videos"):
        with pytest.raises(InfrastructureError, match="task's files"):
            metrics.load(name)(gold, made)
        assert (
            metrics.load(name)(
                tmp_path / "none", gold if name == "compare_audios" else film(tmp_path / "g.mp4")
            )
            == 0
        )


def test_likeness_of_signals() -> None:
    one = np.array([0, 0, 1, 2, 3, 0, 0, 0], dtype=np.float32)
    assert likeness(one, one, 0) == pytest.approx(1)
    assert likeness(one, np.roll(one, 2), 2) == pytest.approx(1)
    assert likeness(np.roll(one, 2), one, 2) == pytest.approx(1)
    assert likeness(one, np.roll(one, 2), 1) == pytest.approx(8 / 14)
    assert likeness(one, 5 * one, 0) == pytest.approx(1)
    assert likeness(one, -one, 0) == 0
    assert likeness(one[:4], one, 0) == pytest.approx((5 / 70**0.5) * 0.5)
    silence = np.zeros(8, dtype=np.float32)
    assert (likeness(silence, silence[:4], 2), likeness(silence, one, 2), likeness(one[:0], one, 2)) == (
        0.5,
        0,
        0,
    )


def test_hashes_of_frames() -> None:
    random = np.random.default_rng(0)
    frame = np.kron(random.integers(40, 216, (8, 8)), np.ones((4, 4), dtype=int))
    flat = np.full((32, 32), 16)
    frames = np.stack(
        [frame, frame // 2, frame + random.integers(-3, 4, frame.shape), frame[:, ::-1], frame.T]
    )
    same, *others = hashes(frames.astype(np.uint8))
    dimmer, noisy, mirrored, turned = (np.count_nonzero(same != other) for other in others)
    assert max(dimmer, noisy) <= 5 < min(mirrored, turned)
    black, grey, noise = hashes(
        np.stack([flat, flat * 9, flat + random.integers(-1, 2, flat.shape)]).astype(np.uint8)
    )
    assert same.shape == (64,)
    assert np.count_nonzero(black != grey) <= 1 and np.count_nonzero(black != noise) <= 1


def archive(path: Path, **files: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in files.items():
            zipped.writestr(name.replace("__", "/"), content)
    return path


@pytest.mark.parametrize(
    ("files", "options", "score"),
    [
        ({"a__1": "x", "a__2": "y", "b": "other"}, {"file_path": "a"}, 1),
        ({"a__1": "x", "a__2": "Y"}, {"file_path": "a"}, 0.5),
        ({"a__1": "x", "a__2": "Y"}, {"file_path": "a", "ignore_case": True}, 1),
        ({"a__1": "x"}, {"file_path": "a"}, 0),
        ({"a__1": "x", "a__2": "y", "a__3": "z"}, {"file_path": "a"}, 0),
        ({"1": "x", "2": "y"}, {"file_path": "a"}, 0),
        ({"b": "z", "a__1": ""}, {}, 1),
        ({}, {}, 0),
    ],
)
def test_archive(files: dict[str, str], options: dict[str, Any], score: float, tmp_path: Path) -> None:
    gold = archive(tmp_path / "gold.zip", a__1="x", a__2="y", b="z")
    made = archive(tmp_path / "made.zip", **files)
    assert metrics.load("compare_archive")(made, gold, **options) == score


def test_same_bytes_in_an_archive(tmp_path: Path) -> None:
    compare = metrics.load("compare_zip_files")
    gold = archive(tmp_path / "gold.zip", a__1="x", b="z")
    for name, files, score in (
        ("same", {"b": "z", "a__1": "x"}, 1),
        ("other", {"b": "z", "a__1": "y"}, 0),
        ("less", {"b": "z"}, 0),
        ("more", {"b": "z", "a__1": "x", "c": ""}, 0),
    ):
        assert compare(archive(tmp_path / f"{name}.zip", **files), gold) == score


def locked(path: Path) -> bytes:
    """An archive whose one member says that it needs a password."""
    data = bytearray(archive(path, b="z").read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    return bytes(data)


def bomb(path: Path) -> bytes:
    """An archive whose one member says that it has a gigabyte."""
    data = bytearray(archive(path, b="z").read_bytes())
    size = data.index(b"PK\x01\x02") + 24
    data[size : size + 4] = (1 << 30).to_bytes(4, "little")
    return bytes(data)


def test_no_archive(tmp_path: Path) -> None:
    gold, made = archive(tmp_path / "gold.zip", b="z"), tmp_path / "made.zip"
    for garbage in (b"", b"garbage", gold.read_bytes()[:30], locked(made), bomb(made)):
        made.write_bytes(garbage)
        for name in ("compare_archive", "compare_zip_files"):
            assert metrics.load(name)(made, gold) == 0
            with pytest.raises(InfrastructureError, match="task's files"):
                metrics.load(name)(gold, made)
    with pytest.raises(InfrastructureError, match="spreadsheets"):
        metrics.load("compare_archive")(gold, gold, file_type="spreadsheets")


SUITE = "import snake\nfrom settings import WIDTH\ndef test():\n    return snake.area(2) == 2 * WIDTH\n"
SETTINGS = "WIDTH = 7\n"
GOOD = "from settings import WIDTH\ndef area(n): return n * WIDTH\n"


def suite(folder: Path, snake: str, text: str = SUITE) -> tuple[list[Path], Path]:
    (folder / "made").mkdir(exist_ok=True)
    files = {"made/snake.py": snake, "made/settings.py": SETTINGS, "suite.py": text}
    for name, content in files.items():
        (folder / name).write_text(content)
    return [folder / "made/snake.py", folder / "made/settings.py"], folder / "suite.py"


@needs_sandbox
@pytest.mark.parametrize(
    ("snake", "score"),
    [
        (GOOD, 1),
        (
            GOOD
            + "print('x' * 9)\nimport threading, time\n"
            + "threading.Thread(target=time.sleep, args=(99,)).start()\n",
            1,
        ),
        ("def area(n): return n\n", 0),
        ("", 0),
        ("def area(n: return\n", 0),
        ("raise SystemExit(0)\n", 0),
        ("import not_a_module\n" + GOOD, 0),
        ("import os\nos._exit(0)\n", 0),
        ("import sys\nsys.__stdout__.write('1.0\\n'); sys.__stdout__.flush()\nimport os; os._exit(0)\n", 0),
        ("x = bytearray(3 << 30)\n" + GOOD, 0),
        ("open('/work/settings.py', 'a').write('#')\n" + GOOD, 0),
        ("open('/etc/passwd')\n" + GOOD, 0),
        ("import socket\nsocket.create_connection(('127.0.0.1', PORT))\n" + GOOD, 0),
        ("import os\nos.kill(PID, 0)\n" + GOOD, 0),
        ("open('/tmp/x', 'wb').write(bytes(8 << 20))\n" + GOOD, 0),
    ],
)
def test_program(snake: str, score: float, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        snake = snake.replace("PORT", str(server.getsockname()[1])).replace("PID", str(os.getpid()))
        files, expected = suite(tmp_path, snake)
        check = metrics.load("check_python_file_by_test_suite")
        assert check(files, expected) == score
    assert (tmp_path / "made/settings.py").read_text() == SETTINGS


@needs_sandbox
def test_what_a_suite_may_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = metrics.load("check_python_file_by_test_suite")
    files, expected = suite(
        tmp_path, GOOD, "def half(): return 0.5\ndef much(): return 7\ndef nan(): return 0 * 1e999\n"
    )
    for function, score in (("half", 0.5), ("much", 1), ("nan", 0), ("missing", 0)):
        assert check(files, expected, test_function_name=function) == score
    files, expected = suite(tmp_path, GOOD)
    assert check(files[0], expected) == 1  # what is beside it counts
    assert check([files[0], None], expected) == 0
    monkeypatch.setattr(programs, "_SECONDS", 1)
    assert check(suite(tmp_path, "while True: pass\n")[0], expected) == 0
    with pytest.raises(InfrastructureError, match="task's files"):
        check(files, tmp_path / "none")


@needs_sandbox
def test_a_package_that_tasks_need(tmp_path: Path) -> None:
    files, expected = suite(tmp_path, "import pygame\n" + GOOD)
    try:
        score = metrics.load("check_python_file_by_test_suite")(files, expected)
    except InfrastructureError as error:
        assert "pip install pygame" in str(error)
    else:
        assert score == 1


def test_without_a_sandbox_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "why_no_sandbox", lambda: "bwrap is missing: apt-get install bubblewrap")
    files, expected = suite(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')\n" + GOOD)
    with pytest.raises(InfrastructureError, match="apt-get install bubblewrap"):
        metrics.load("check_python_file_by_test_suite")(files, expected)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("words", "score"),
    [
        ("Taipei\n\nLondon Paris", 1),
        ("Taipei Londn Paris", pytest.approx(1, abs=0.1)),
        ("Taipei London", 0),
        ("", 0),
    ],
)
def test_places(words: str, score: Any, tmp_path: Path) -> None:
    document = docx.Document()
    for line in words.splitlines():
        document.add_paragraph(line)
    document.save(str(tmp_path / "list.docx"))
    check, rules = metrics.load("fuzzy_place_math"), {"expected": ["London", "Paris", "Taipei"]}
    assert check(tmp_path / "list.docx", rules) == score
    (tmp_path / "list.docx").write_bytes(b"garbage")
    assert check(tmp_path / "list.docx", rules) == 0
