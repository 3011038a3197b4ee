"""Tasks in GIMP, VLC, Chromium and Thunderbird."""

from random import Random

from PIL import Image, ImageOps

from rewards.tasksets.desktop.files import picture, png, tone
from rewards.tasksets.desktop.scenario import (
    HOME,
    Scenario,
    Template,
    compared,
    keys,
    launched,
    lay,
    pause,
    placed,
    quiet,
    ran,
    ruled,
    shell,
    typed,
    wait_for,
    window,
)

_PICTURE = f"{HOME}/Pictures/photo.png"
_GIMP = [placed("photo.png", _PICTURE), launched("gimp", "--no-splash", _PICTURE), window("photo")]
_IDLE = quiet("chromium")
_VLCRC = f"{HOME}/.config/vlc/vlcrc"
_PROFILE = f"{HOME}/.thunderbird/main.default"


def _edited(
    instruction: str, image: Image.Image, gold: Image.Image, misses: dict[str, Image.Image]
) -> Scenario:
    files = {"photo.png": png(image), "gold.png": png(gold)}
    files |= {f"{name.replace(' ', '-')}.png": png(miss) for name, miss in misses.items()}
    return Scenario(
        f"{instruction} Overwrite ~/Pictures/photo.png, which is open in GIMP.",
        _GIMP,
        compared("check_structure_sim_with_threshold", _PICTURE, "gold.png", ssim_threshold=0.95),
        [lay("gold.png", _PICTURE)],
        {name: [lay(f"{name.replace(' ', '-')}.png", _PICTURE)] for name in misses},
        files,
    )


def _mirror(random: Random) -> Scenario:
    image = picture(random, (320, 200))
    return _edited(
        "Flip the picture horizontally: left and right change places.",
        image,
        ImageOps.mirror(image),
        {"upside down": ImageOps.flip(image), "turned round": image.rotate(180)},
    )


def _scale(random: Random) -> Scenario:
    image, width = picture(random, (320, 200)), random.choice((160, 240, 480))
    size = (width, width * 200 // 320)
    return _edited(
        f"Scale the picture to a width of {width} pixels, in proportion.",
        image,
        image.resize(size, Image.Resampling.BICUBIC),
        {"cropped": image.crop((0, 0, *size)), "out of proportion": image.resize((width, 200))},
    )


def _undo_steps(random: Random) -> Scenario:
    levels = random.choice((20, 50, 80, 120))
    rc = f"{HOME}/.config/GIMP/2.10/gimprc"

    def write(value: int) -> str:
        return f"pkill gimp; mkdir -p {HOME}/.config/GIMP/2.10; echo '(undo-levels {value})' >> {rc}"

    return Scenario(
        f"Set GIMP's minimal number of undo levels to {levels}.",
        [launched("gimp", "--no-splash"), window("GNU Image")],
        ruled(
            "check_config_status",
            {"type": "gimp_config_file", "file_name": "gimprc", "dest": "gimprc"},
            key="undo-levels",
            value=str(levels),
        ),
        [shell(write(levels))],
        {"another number": [shell(write(levels + 1))], "set back": [shell(write(levels)), shell(write(5))]},
    )


def _minimal(random: Random) -> Scenario:
    return Scenario(
        "Switch VLC to its minimal interface, without menus and controls, and quit VLC so that it remembers.",
        [placed("tone.wav", f"{HOME}/Music/tone.wav"), launched("vlc"), window("VLC media player")],
        ruled("check_qt_minimal_view", {"type": "vlc_config", "dest": "vlcrc"}, expected_qt_minimal_view=1),
        [shell(f"pkill vlc; printf '[qt]\\nqt-minimal-view=1\\n' >> {_VLCRC}")],
        {
            "set back": [shell(f"pkill vlc; printf '[qt]\\nqt-minimal-view=0\\n' >> {_VLCRC}")],
            "another setting": [shell(f"pkill vlc; printf '[qt]\\nqt-bgcone=0\\n' >> {_VLCRC}")],
        },
        {"tone.wav": tone()},
    )


def _recordings(random: Random) -> Scenario:
    folder = f"{HOME}/{random.choice(('Desktop', 'Documents', 'Music'))}"
    line = "pkill vlc; printf '[core]\\ninput-record-path=%s\\n' {} >> " + _VLCRC
    return Scenario(
        f"VLC's recordings shall be kept in {folder}: change the setting.",
        [launched("vlc"), window("VLC media player")],
        ruled(
            "is_vlc_recordings_folder", {"type": "vlc_config", "dest": "vlcrc"}, recording_file_path=folder
        ),
        [shell(line.format(folder))],
        {
            "another folder": [shell(line.format(f"{HOME}/Videos"))],
            "snapshots": [shell(line.replace("input-record", "snapshot").format(folder))],
        },
    )


def _bookmark(random: Random) -> Scenario:
    name = random.choice(("orders", "timetable", "recipes", "weather"))
    page, address = f"{HOME}/Documents/{name}.html", f"file://{HOME}/Documents/{name}.html"
    asking = [wait_for(name.title()), _IDLE, keys("Control+d"), _IDLE]
    return Scenario(
        f"Put the page {name}.html, which is open in the browser, on the bookmarks bar.",
        [
            placed("page.html", page),
            *(launched("google-chrome", page), window(name.title())),
        ],
        ruled(
            "is_expected_bookmarks",
            {"type": "bookmarks"},
            type="bookmark_bar_websites_urls",
            urls=[address],
        ),
        # The dialog offers other bookmarks first; a letter chooses the folder that begins with it.
        [*asking, keys("Tab"), typed("B"), keys("Enter"), pause(1.0), keys("Escape"), pause(3.0)],
        {
            "another folder": [*asking, keys("Enter"), pause(3.0)],
            "not at all": [wait_for(name.title()), pause(1.0)],
        },
        {"page.html": f"<title>{name.title()}</title><h1>{name.title()}</h1>".encode()},
    )


def _do_not_track(random: Random) -> Scenario:
    preferences = f"{HOME}/.config/google-chrome/Default/Preferences"

    def write(key: str, value: str) -> str:
        script = f'import json; p="{preferences}"; d=json.load(open(p)); d["{key}"]={value}; '
        script += 'json.dump(d, open(p, "w"))'
        return f"pkill chrome; sleep 1; python3 -c '{script}'"

    waiting = f"for i in $(seq 50); do test -f {preferences} && break; sleep 0.2; done"
    return Scenario(
        'Let the browser send "Do Not Track" with its requests.',
        [launched("google-chrome", "about:blank"), window("Chromium"), ran(waiting)],
        {
            "func": "exact_match",
            "result": {"type": "enable_do_not_track"},
            "expected": {"type": "rule", "rules": {"expected": "true"}},
        },
        [shell(write("enable_do_not_track", "True"))],
        {
            "off": [shell(write("enable_do_not_track", "False"))],
            "another setting": [shell(write("enable_a_ping", "True"))],
        },
    )


def _mail_setting(random: Random) -> Scenario:
    minutes = random.choice((3, 7, 12, 25))
    key = "mail.compose.autosaveinterval"

    def write(value: int) -> str:
        return f"pkill thunderbird; sleep 0.5; echo 'user_pref(\"{key}\", {value});' >> {_PROFILE}/prefs.js"

    profiles = "[Profile0]\\nName=default\\nIsRelative=1\\nPath=main.default\\nDefault=1\\n"
    return Scenario(
        f"Let Thunderbird save drafts by itself every {minutes} minutes.",
        [
            ran(f"mkdir -p {_PROFILE} && printf '{profiles}' > {HOME}/.thunderbird/profiles.ini"),
            *(launched("thunderbird", "--profile", _PROFILE), window("Thunderbird")),
        ],
        ruled(
            "check_thunderbird_prefs",
            {"type": "vm_file", "path": f"{_PROFILE}/prefs.js", "dest": "prefs.js"},
            expect={key: {"method": "eq", "ref": minutes}},
        ),
        [shell(write(minutes))],
        {"another interval": [shell(write(minutes + 1))], "not set": [shell("pkill thunderbird; sleep 0.5")]},
    )


TEMPLATES = (
    Template("gimp-mirror", ("gimp",), _mirror),
    Template("gimp-scale", ("gimp",), _scale),
    Template("gimp-undo-levels", ("gimp",), _undo_steps),
    Template("vlc-minimal-interface", ("vlc",), _minimal),
    Template("vlc-recordings-folder", ("vlc",), _recordings),
    Template("chromium-bookmark", ("chrome",), _bookmark, screen=True),
    Template("chromium-do-not-track", ("chrome",), _do_not_track),
    Template("thunderbird-autosave", ("thunderbird",), _mail_setting),
)
