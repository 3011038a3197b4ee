"""Frames are PNG or JPEG; nothing else that Pillow can read is tried, and no program is started for one."""

import io

import pytest
from PIL import Image

from guiagent.errors import FaultError
from guiagent.frames import MOST_PIXELS, rgb, rgb_of_device


def _encoded(format: str, mode: str = "RGB", size: tuple[int, int] = (8, 6)) -> bytes:
    out = io.BytesIO()
    Image.new(mode, size, 1).save(out, format)
    return out.getvalue()


@pytest.mark.parametrize(("format", "mode"), [("PNG", "P"), ("PNG", "RGBA"), ("PNG", "1"), ("JPEG", "L")])
def test_pictures_of_any_mode_become_rgb(format: str, mode: str) -> None:
    image = rgb(_encoded(format, mode))
    assert (image.mode, image.size) == ("RGB", (8, 6))


# Pillow gives EPS to Ghostscript; the others are parsers that no screen needs.
@pytest.mark.parametrize("format", ["EPS", "GIF", "TIFF", "BMP", "WEBP", "PPM", "ICO"])
def test_other_formats_are_the_devices_fault(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = _encoded(format)
    monkeypatch.setattr("subprocess.Popen", None)
    with pytest.raises(ValueError, match="no picture: neither PNG nor JPEG"):
        rgb(frame)
    with pytest.raises(FaultError, match="no picture") as caught:
        rgb_of_device(frame)
    assert (caught.value.fault.origin, caught.value.fault.code) == ("device", "bad_frame")


def test_a_few_bytes_that_claim_many_pixels_are_not_decoded() -> None:
    size = 16 << 10, (MOST_PIXELS >> 14) + 1
    frame = _encoded("PNG", "1", size)
    assert len(frame) < 1 << 20
    with pytest.raises(ValueError, match=f"too large a picture: {size[0]} x {size[1]} pixels"):
        rgb(frame)


@pytest.mark.parametrize(
    "frame", [b"", b"no picture", _encoded("PNG")[:40], b"\x89PNG\r\n\x1a\n" + b"\0" * 40]
)
def test_what_is_cut_or_garbled_is_one_line(frame: bytes) -> None:
    with pytest.raises(ValueError) as caught:
        rgb(frame)
    assert "\n" not in str(caught.value)
