"""Devices as words on a command line."""

import pytest

from devices import specs
from devices.config import AndroidConfig, BrowserConfig, PhoneConfig, VmConfig
from guiagent.errors import UsageError


def test_a_word_says_kind_count_and_size() -> None:
    assert specs.parse(["browser=4@1280x720", "phone"]) == [
        BrowserConfig(count=4, width=1280, height=720),
        PhoneConfig(),
    ]


def test_android_devices_are_named_by_serial_or_avd() -> None:
    assert specs.parse(
        [f"android:{name},unlimited_egress" for name in ("emulator-5554", "redroid:5555", "avd=pixel=2")]
    ) == [
        AndroidConfig(serial="emulator-5554", unlimited_egress=True),
        AndroidConfig(serial="redroid:5555", unlimited_egress=True),
        AndroidConfig(avd="pixel", count=2, unlimited_egress=True),
    ]


def test_what_is_off_is_switched_on_by_its_name() -> None:
    assert specs.parse(["browser=2@800x600,cdp"]) == [BrowserConfig(count=2, width=800, height=600, cdp=True)]


def test_a_vm_may_name_its_image() -> None:
    assert specs.parse(["vm:office=2"]) == [VmConfig(image="office", count=2)]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("", "names no devices; write KIND"),
        ("browser=", "names no devices"),
        ("browser@10", "names no devices"),
        ("toaster", "toaster"),
        ("browser=0", "count"),
        ("browser=2@1x1", "width"),
        ("browser:elsewhere", "browser devices have no ':elsewhere'"),
        ("android,unlimited_egress", "serial or by its avd"),
        ("android:X", "egress rules of leases would not hold"),
        ("browser,teleport", "teleport"),
    ],
)
def test_what_it_cannot_be_is_one_line_with_the_word(word: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        specs.parse([word])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
