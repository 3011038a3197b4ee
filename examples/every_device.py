"""One script for every kind of screen: it takes one of each, taps, types, and keeps a picture.

python examples/every_device.py browser desktop vm phone
"""

import sys

import guiagent
from guiagent.client.sync_device import SyncDevice

PAGE = (
    "data:text/html,<input autofocus style='position:absolute;left:20px;top:20px;width:600px;font-size:40px'>"
)


def show_something_to_type_into(device: SyncDevice, kind: str) -> None:
    match kind:
        case "browser":
            device.open(PAGE)
        case "phone":
            device.open("Notes")
            device.click(360, 640)  # one of the notes there
        case _:
            device.open("xterm")


def main(kinds: list[str]) -> None:
    with guiagent.connect(devices=kinds) as farm:
        print("watch them at", farm.live_url)
        for kind in kinds:
            with farm.lease(kind, label="every_device.py") as device:
                device.reset()
                show_something_to_type_into(device, kind)
                screen = device.screenshot().image
                device.click(screen.width // 2, screen.height // 2)
                device.type("hello from guiagent")
                device.screenshot().image.save(f"{kind}.png")
                print(f"{kind:8} {screen.width}x{screen.height}  typed, and kept as {kind}.png")


if __name__ == "__main__":
    main(sys.argv[1:] or ["browser", "desktop", "phone"])
