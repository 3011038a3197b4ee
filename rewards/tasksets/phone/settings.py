"""Tasks in Settings: switches, levels, choices, networks."""

import random
from typing import Literal, NamedTuple

from rewards.checks.android import Row, Setting
from rewards.checks.android_tables import NETWORKS, PAIRED
from rewards.tasksets.phone.facts import Changed
from rewards.tasksets.phone.template import Scenario, Template
from rewards.tasksets.phone.words import people

_APP = ("com.android.settings",)


class Switch(NamedTuple):
    label: str
    namespace: Literal["system", "secure", "global"]
    key: str
    off: str = "0"
    on: str = "1"

    @property
    def setting(self) -> Setting:
        return Setting(self.namespace, self.key)

    def start(self, on: bool) -> tuple[Setting, list[Row]]:
        return self.setting, [{"value": self.on if on else self.off}]

    def turned(self, on: bool) -> Changed:
        return Changed(self.setting, {}, {"value": self.on if on else self.off})


SWITCHES = (
    Switch("Wi-Fi", "global", "wifi_on"),
    Switch("Bluetooth", "global", "bluetooth_on"),
    Switch("mobile data", "global", "mobile_data"),
    Switch("airplane mode", "global", "airplane_mode_on"),
    Switch("Battery Saver", "global", "low_power"),
    Switch("Do Not Disturb", "global", "zen_mode"),
    Switch("Night Light", "secure", "night_display_activated"),
    Switch("the dark theme", "secure", "ui_night_mode", "1", "2"),
    Switch("location", "secure", "location_mode", "0", "3"),
    Switch("auto-rotation of the screen", "system", "accelerometer_rotation"),
    Switch("the 24-hour format of times", "system", "time_12_24", "12", "24"),
    Switch("tap sounds", "system", "sound_effects_enabled"),
)


def _turn(rng: random.Random, count: int) -> Scenario:
    *drawn, other = rng.sample(SWITCHES, count + 1)
    ways = [rng.random() < 0.5 for _ in drawn]
    told = [f"turn {'on' if on else 'off'} {one.label}" for one, on in zip(drawn, ways, strict=True)]
    goal = [one.turned(on) for one, on in zip(drawn, ways, strict=True)]
    starts = [one.start(not on) for one, on in zip(drawn, ways, strict=True)]
    return Scenario(
        f"In the phone's settings, {' and '.join(told)}.",
        steps=4 * count,
        start=[*starts, other.start(not ways[0])],
        goal=goal,
        near_misses={"another switch": [other.turned(ways[0]), *goal[1:]]},
    )


def switch(rng: random.Random) -> Scenario:
    return _turn(rng, 1)


def two_switches(rng: random.Random) -> Scenario:
    return _turn(rng, 2)


def _choose(told: str, setting: Setting, start: str, wanted: str, steps: int, other: str) -> Scenario:
    return Scenario(
        told,
        steps,
        start=[(setting, [{"value": start}])],
        goal=[Changed(setting, {}, {"value": wanted})],
        near_misses={"another choice": [Changed(setting, {}, {"value": other})]},
    )


def brightness(rng: random.Random) -> Scenario:
    word, value, other = rng.choice([("highest", "255", "240"), ("lowest", "1", "12")])
    told = f"Set the brightness of the screen to the {word} level there is."
    return _choose(told, Setting("system", "screen_brightness", "integer"), "102", value, 5, other)


def volume(rng: random.Random) -> Scenario:
    name, key, most = rng.choice(
        [("media", "volume_music", 15), ("alarm", "volume_alarm", 7), ("ring", "volume_ring", 7)]
    )
    word, value, other = rng.choice([("all the way up", most, most - 1), ("all the way down", 0, 1)])
    setting = Setting("system", key, "integer")
    return _choose(f"Turn the {name} volume {word}.", setting, "3", str(value), 5, str(other))


def screen_timeout(rng: random.Random) -> Scenario:
    times = {
        "15 seconds": "15000",
        "30 seconds": "30000",
        "2 minutes": "120000",
        "5 minutes": "300000",
        "10 minutes": "600000",
    }
    wanted, other = rng.sample(sorted(times), 2)
    told = f"Make the screen turn off by itself after {wanted}."
    return _choose(told, Setting("system", "screen_off_timeout"), "60000", times[wanted], 5, times[other])


def font_size(rng: random.Random) -> Scenario:
    sizes = {"Small": "0.85", "Large": "1.15", "Largest": "1.3"}
    wanted, other = rng.sample(sorted(sizes), 2)
    told = f'Set the font size of the phone to "{wanted}".'
    return _choose(told, Setting("system", "font_scale", "real"), "1.0", sizes[wanted], 5, sizes[other])


def language(rng: random.Random) -> Scenario:
    languages = {
        "German": "de-DE",
        "Spanish": "es-ES",
        "French": "fr-FR",
        "Italian": "it-IT",
        "British English": "en-GB",
    }
    wanted, other = rng.sample(sorted(languages), 2)
    setting = Setting("system", "system_locales")
    return _choose(
        f"Change the phone's language to {wanted}.", setting, "en-US", languages[wanted], 4, languages[other]
    )


def device_name(rng: random.Random) -> Scenario:
    owner, other = (name.split()[0] for name in people(rng, 2))
    wanted = f"{owner}'s {rng.choice(['phone', 'mobile', 'work phone'])}"
    setting = Setting("global", "device_name")
    return _choose(f'Rename this phone to "{wanted}".', setting, "Phone", wanted, 6, f"{other}'s phone")


def _networks(rng: random.Random) -> list[Row]:
    names = rng.sample(["Airport Free", "Corner Bakery", "Museum", "Rail Wi-Fi", "Town Hall"], 3)
    home: Row = {"ssid": "Attic", "secured": 1, "level": 4, "saved": 1, "connected": 1}
    return [home, *({**home, "ssid": name, "secured": 0, "saved": 0, "connected": 0} for name in names)]


def wifi_connect(rng: random.Random) -> Scenario:
    rows = _networks(rng)
    home, wanted = rows[0]["ssid"], rows[2]["ssid"]
    leave = Changed(NETWORKS, {"ssid": home}, {"connected": 0})
    return Scenario(
        f'Connect the phone to the open Wi-Fi network "{wanted}".',
        steps=4,
        start=[Switch("", "global", "wifi_on").start(True), (NETWORKS, rows)],
        goal=[leave, Changed(NETWORKS, {"ssid": wanted}, {"connected": 1, "saved": 1})],
        near_misses={"disconnected only": [leave]},
    )


def wifi_missing(rng: random.Random) -> Scenario:
    """The same words as `wifi_connect`, for a network that is not in reach."""
    rows = _networks(rng)
    wanted = rows.pop(2)["ssid"]
    return Scenario(
        f'Connect the phone to the open Wi-Fi network "{wanted}".',
        steps=4,
        start=[Switch("", "global", "wifi_on").start(True), (NETWORKS, rows)],
        infeasible=True,
        near_misses={
            "another network": [Changed(NETWORKS, {"ssid": rows[1]["ssid"]}, {"connected": 1, "saved": 1})]
        },
    )


def bluetooth_pair(rng: random.Random) -> Scenario:
    names = rng.sample(["Blue Speaker", "Blue Speaker Mini", "Garage Door", "Ear Buds", "Ear Buds Pro"], 4)
    rows: list[Row] = [
        {"name": name, "address": f"02:00:5E:20:00:0{index}", "paired": int(index == 0)}
        for index, name in enumerate(names)
    ]
    return Scenario(
        f'Pair the phone with the Bluetooth device "{names[1]}" and forget "{names[0]}".',
        steps=8,
        start=[Switch("", "global", "bluetooth_on").start(True), (PAIRED, rows)],
        goal=[
            Changed(PAIRED, {"name": names[0]}, {"paired": 0}),
            Changed(PAIRED, {"name": names[1]}, {"paired": 1}),
        ],
    )


TEMPLATES = (
    Template("settings-switch", _APP, switch),
    Template("settings-two-switches", _APP, two_switches),
    Template("settings-brightness", _APP, brightness),
    Template("settings-volume", _APP, volume),
    Template("settings-screen-timeout", _APP, screen_timeout),
    Template("settings-font-size", _APP, font_size),
    Template("settings-language", _APP, language),
    Template("settings-device-name", _APP, device_name),
    Template("settings-wifi-connect", _APP, wifi_connect),
    Template("settings-wifi-missing", _APP, wifi_missing),
    Template("settings-bluetooth", _APP, bluetooth_pair),
)
