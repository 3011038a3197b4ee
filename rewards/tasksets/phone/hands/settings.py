"""Settings: switches, levels, choices, networks and devices, each on its page. Pure."""

from collections.abc import Sequence

from guiagent.actions import Action
from rewards.checks.android import Setting
from rewards.checks.android_tables import NETWORKS, PAIRED
from rewards.tasksets.phone.facts import State
from rewards.tasksets.phone.hands.dues import Due
from rewards.tasksets.phone.hands.forms import asked, chosen, pressed, text
from rewards.tasksets.phone.hands.scene import BACK, Scene

_PAGES = {
    ".WifiSettingsActivity": "Wi-Fi",
    ".NetworkActivity": "Network & internet",
    ".BluetoothSettingsActivity": "Bluetooth",
    ".AppListActivity": "Apps",
    ".SoundSettingsActivity": "Sound & vibration",
    ".DisplaySettingsActivity": "Display",
    ".BatteryActivity": "Battery",
    ".LocationSettingsActivity": "Location",
    ".DateTimeSettingsActivity": "Date & time",
    ".LanguageSettingsActivity": "Languages",
    ".AboutPhoneActivity": "About phone",
}
_TILES = tuple(_PAGES.values())  # as they stand on the first page
_ROWS = {
    "Display": (
        *("Display brightness", "Adaptive brightness", "Dark theme", "Font size", "Night Light"),
        *("Screen timeout", "Auto-rotate screen"),
    ),
    "Sound & vibration": (
        *("Media volume", "Ring volume", "Notification volume", "Alarm volume"),
        *("Do Not Disturb", "Touch feedback", "Tap sounds"),
    ),
    "Languages": (
        "English (United States)",
        "English (United Kingdom)",
        "Deutsch (Deutschland)",
        "Español (España)",
        "Français (France)",
        "Italiano (Italia)",
        "Português (Brasil)",
    ),
}
_SWITCHES = {
    "wifi_on": ("Wi-Fi", "Use Wi-Fi"),
    "bluetooth_on": ("Bluetooth", "Use Bluetooth"),
    "mobile_data": ("Network & internet", "Mobile data"),
    "airplane_mode_on": ("Network & internet", "Airplane mode"),
    "low_power": ("Battery", "Battery Saver"),
    "zen_mode": ("Sound & vibration", "Do Not Disturb"),
    "night_display_activated": ("Display", "Night Light"),
    "ui_night_mode": ("Display", "Dark theme"),
    "location_mode": ("Location", "Use location"),
    "accelerometer_rotation": ("Display", "Auto-rotate screen"),
    "time_12_24": ("Date & time", "Use 24-hour format"),
    "sound_effects_enabled": ("Sound & vibration", "Tap sounds"),
}
_SLIDERS = {
    "screen_brightness": ("Display", "Display brightness"),
    "volume_music": ("Sound & vibration", "Media volume"),
    "volume_ring": ("Sound & vibration", "Ring volume"),
    "volume_alarm": ("Sound & vibration", "Alarm volume"),
}
_LOWEST = 1  # of a slider that is pulled all the way down, or 0
_CHOICES = {
    "font_scale": ("Font size", {"0.85": "Small", "1.0": "Default", "1.15": "Large", "1.3": "Largest"}),
    "screen_off_timeout": (
        "Screen timeout",
        {
            "15000": "15 seconds",
            "30000": "30 seconds",
            "60000": "1 minute",
            "120000": "2 minutes",
            "300000": "5 minutes",
            "600000": "10 minutes",
            "1800000": "30 minutes",
        },
    ),
}
_LANGUAGES = dict(
    zip(("en-US", "en-GB", "de-DE", "es-ES", "fr-FR", "it-IT", "pt-BR"), _ROWS["Languages"], strict=True)
)


def act(scene: Scene, dues: Sequence[Due], state: State) -> Action:
    """Set what the first of the dues is about."""
    due = dues[0]
    if isinstance(due.source, Setting):
        return _set(scene, due.source.key, text((due.then or {}).get("value")))
    if due.source is NETWORKS:
        return _connect(scene, dues)
    return _pair(scene, [one for one in dues if one.source is PAIRED])


def look(scene: Scene, page: str) -> Action | None:
    """Open a page; None once it is there."""
    if scene.dialog or scene.find("Forget", "button"):
        return BACK
    here = _PAGES.get(scene.activity)
    if here == page:
        return None
    if scene.activity != ".Settings" or scene.keyboard or scene.field("Search"):
        return BACK
    return scene.tap_in(page, _TILES)


def _set(scene: Scene, key: str, wanted: str) -> Action:
    if key == "device_name" and scene.field("Device name"):
        return asked(scene, "Device name", wanted)
    if key in _CHOICES:
        row, labels = _CHOICES[key]
        if scene.dialog and scene.find(row):
            return chosen(scene, labels[wanted])
        return look(scene, "Display") or scene.tap_in(row, _ROWS["Display"])
    if key == "device_name":
        return look(scene, "About phone") or scene.tap_in("Device name")
    if key == "system_locales":
        return look(scene, "Languages") or scene.tap_in(_LANGUAGES[wanted], _ROWS["Languages"])
    if key in _SLIDERS:
        page, name = _SLIDERS[key]
        slider = scene.find(name, "slider")
        if (way := look(scene, page)) is not None:
            return way
        return scene.slide(slider, up=int(wanted) > _LOWEST) if slider else scene.towards(name, _ROWS[page])
    page, row = _SWITCHES[key]
    return look(scene, page) or scene.tap_in(row, _ROWS.get(page, ()))


def _connect(scene: Scene, dues: Sequence[Due]) -> Action:
    forgotten = next((one for one in dues if (one.then or {}).get("saved") == 0), None)
    due = forgotten or next((one for one in dues if (one.then or {}).get("connected")), dues[0])
    name = text((due.now or {}).get("ssid"))
    if scene.find("Forget", "button") and scene.find(name):
        return pressed(scene, "Forget" if due is forgotten else "Disconnect")
    if (way := look(scene, "Wi-Fi")) is not None:
        return way
    return scene.tap_in("Use Wi-Fi" if scene.shows("turn Wi-Fi on") else name)


def _pair(scene: Scene, dues: Sequence[Due]) -> Action:
    names = {text((one.now or {}).get("name")): bool((one.then or {}).get("paired")) for one in dues}
    if scene.dialog:
        button = scene.find("Pair", "button") or scene.find("Forget", "button")
        about = next((name for name in names if scene.find(name)), None)
        return scene.tap(button) if about and button and (button.name == "Pair") is names[about] else BACK
    if (way := look(scene, "Bluetooth")) is not None:
        return way
    off = (
        scene.find("Use Bluetooth")
        and not scene.find("Saved devices")
        and not scene.find("Available devices")
    )
    return scene.tap_in("Use Bluetooth" if off else next(iter(names)))
