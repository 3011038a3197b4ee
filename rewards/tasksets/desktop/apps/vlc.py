"""Tasks in VLC."""

from dataclasses import dataclass
from random import Random
from typing import Any

from rewards.tasksets.desktop.files import tone
from rewards.tasksets.desktop.scenario import (
    HOME,
    Play,
    Scenario,
    Template,
    keys,
    launched,
    pause,
    placed,
    printed,
    quiet,
    ruled,
    shell,
    typed,
    wait_for,
    window,
)
from rewards.tasksets.desktop.words import WORDS

_VLCRC = f"{HOME}/.config/vlc/vlcrc"
_CONFIG = {"type": "vlc_config", "dest": "vlcrc"}
_MUSIC = f"{HOME}/Music"
_VLC = (launched("vlc"), window("VLC media player"))
_IDLE = quiet("vlc")


def _write(key: str, value: object) -> Play:
    """End VLC, which writes its settings itself when it ends, and set one."""
    section = "qt" if key.startswith("qt-") else "core"
    return [shell(f"pkill vlc; sleep 0.5; printf '[{section}]\\n{key}={value}\\n' >> {_VLCRC}")]


@dataclass(frozen=True)
class _Setting:
    """A setting of VLC's: what is asked for, its key, and its values: wanted, and at first.

    `metric` reads it, and its rule is `rule`. `instruction` may name the wanted value as {}.
    """

    instruction: str
    key: str
    values: tuple[object, ...]
    other: object
    metric: str
    rule: str

    def make(self, random: Random) -> Scenario:
        value = random.choice(self.values)
        return Scenario(
            f"{self.instruction.format(value)} Quit VLC, so that it remembers.",
            _VLC,
            ruled(self.metric, _CONFIG, **{self.rule: value}),
            _write(self.key, value),
            {
                "set back": [*_write(self.key, value), *_write(self.key, self.other)],
                "another setting": _write("qt-system-tray", 0),
            },
        )


_SETTINGS = {
    "vlc-loudest": _Setting(
        "Sounds are too soft: let VLC's volume go up to {} %.",
        "qt-max-volume",
        (150, 175, 200, 250),
        125,
        "check_qt_max_volume",
        "expected_qt_max_volume",
    ),
    "vlc-end-after-playing": _Setting(
        "VLC shall end by itself once all that it was given has been played.",
        "play-and-exit",
        (1,),
        0,
        "check_play_and_exit",
        "expected_play_and_exit",
    ),
    "vlc-no-cone": _Setting(
        "While music plays, VLC shows a traffic cone, or the album's picture. Switch that off.",
        "qt-bgcone",
        (0,),
        1,
        "check_qt_bgcone",
        "expected_qt_bgcone",
    ),
    "vlc-several-windows": _Setting(
        "A file that I open from the file manager shall open in a VLC of its own, also while another one "
        "plays.",
        "one-instance-when-started-from-file",
        (0,),
        1,
        "check_one_instance_when_started_from_file",
        "expected_one_instance_when_started_from_file",
    ),
}


def _minimal(random: Random) -> Scenario:
    return Scenario(
        "Switch VLC to its minimal interface, without menus and controls, and quit VLC so that it remembers.",
        [placed("tone.wav", f"{_MUSIC}/tone.wav"), *_VLC],
        ruled("check_qt_minimal_view", _CONFIG, expected_qt_minimal_view=1),
        _write("qt-minimal-view", 1),
        {"set back": _write("qt-minimal-view", 0), "another setting": _write("qt-bgcone", 0)},
        {"tone.wav": tone()},
    )


def _recordings(random: Random) -> Scenario:
    folder = f"{HOME}/{random.choice(('Desktop', 'Documents', 'Music'))}"
    return Scenario(
        f"VLC's recordings shall be kept in {folder}: change the setting.",
        _VLC,
        ruled("is_vlc_recordings_folder", _CONFIG, recording_file_path=folder),
        _write("input-record-path", folder),
        {
            "another folder": _write("input-record-path", f"{HOME}/Videos"),
            "snapshots": _write("snapshot-path", folder),
        },
    )


def _songs(random: Random) -> tuple[list[str], list[dict[str, Any]], dict[str, bytes]]:
    """Names of three sound files, the steps that lay them down, and their contents."""
    names = [f"{name}.wav" for name in random.sample(WORDS, 3)]
    sounds = {name: tone(600, hertz) for name, hertz in zip(names, (330, 440, 550), strict=True)}
    return names, [placed(name, f"{_MUSIC}/{name}") for name in names], sounds


def _plays(random: Random) -> Scenario:
    names, laid, sounds = _songs(random)
    wanted, other = names[:2]

    def opening(path: str) -> Play:
        return [
            *(
                wait_for("VLC media player"),
                _IDLE,
                keys("Control+o"),
                wait_for("Select one or more files"),
                _IDLE,
            ),
            *(typed(path, submit=True), _IDLE),
        ]

    return Scenario(
        f"Play {wanted} from my folder Music in the VLC that is open.",
        [*laid, launched("vlc", "--extraintf=http", "--http-password=password", "--aout=adummy"), _VLC[1]],
        ruled("is_vlc_playing", {"type": "vlc_playing_info", "dest": "status.xml"},
              type="file_name", file_name=wanted),
        [*opening(f"{_MUSIC}/{wanted}"), pause(1.0)],
        {
            "another": [*opening(f"{_MUSIC}/{other}"), pause(1.0)],
            "paused": [*opening(f"{_MUSIC}/{wanted}"), pause(1.0), keys(" "), pause(1.0)],
        },
        sounds,
    )  # fmt: skip


def _list(random: Random) -> Scenario:
    names, laid, sounds = _songs(random)
    first, second, other = names
    place = f"{_MUSIC}/evening.m3u"
    show = f"grep -v '^#' {place} | sed 's#.*/##'"

    def write(*chosen: str) -> Play:
        lines = "\\n".join(f"{_MUSIC}/{name}" for name in chosen)
        return [shell(f"printf '#EXTM3U\\n{lines}\\n' > {place}")]

    return Scenario(
        f"Make a playlist of two songs of my folder Music with VLC, {first} and then {second}, and save it "
        "there as evening.m3u (the format M3U).",
        [*laid, *_VLC],
        printed(show, f"{first}\n{second}\n"),
        write(first, second),
        {
            "in another order": write(second, first),
            "one too many": write(first, second, other),
            "the wrong one": write(first, other),
        },
        sounds,
    )


_A = ("vlc",)
TEMPLATES = (
    Template("vlc-minimal-interface", _A, _minimal),
    Template("vlc-recordings-folder", _A, _recordings),
    *(Template(name, _A, setting.make) for name, setting in _SETTINGS.items()),
    Template("vlc-play-song", _A, _plays, screen=True),
    Template("vlc-playlist", _A, _list),
)
