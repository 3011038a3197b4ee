"""Pictures that belong to a task's intent (VisualWebArena), and frames of its video (VideoWebArena).

They are files below `media/` beside the task files, as their names say; pictures that a file names by URL are
looked for there as HOST/PATH, or downloaded once. Of a video, frames are taken at even times; its sound is
not passed on.
"""

import asyncio
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from guiagent.errors import Fault, FaultError, MissingProgram
from guiagent.types import Picture
from rewards.checks.assets import Assets
from rewards.tasksets.osworld.load import default_cache
from rewards.tasksets.webarena.files import MEDIA, TaskFile

if TYPE_CHECKING:
    from av.container import InputContainer
    from PIL import Image

FRAMES = 20  # of a video
_SIDE = 1024  # pixels; larger pictures are scaled down
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
_VIDEOS = ("", ".mp4", ".mov", ".webm", ".mkv")
_AHEAD = 600  # frames that are decoded, at most, to come from a key frame to a time


async def pictures(file: TaskFile, folder: Path) -> tuple[str, list[Picture]]:
    """What a model is told of a task's pictures, and the pictures; "" and none for a task without.

    Raises:
        FaultError: a file is missing, cannot be had, or is no picture or video (origin "task").
        MissingProgram: frames of a video need the package av.
    """
    found: list[Picture] = []
    names = [file.image] if isinstance(file.image, str) else file.image or []
    for name in names:
        data = await asyncio.to_thread((await _place(name, folder)).read_bytes)
        found.append(await asyncio.to_thread(_picture, data, name))
    told = " The pictures before the first screenshot belong to this task." if found else ""
    if file.video:
        frames = await asyncio.to_thread(_frames, _video(file.video, folder), file.video)
        found += frames
        which = f"last {len(frames)} pictures" if names else "pictures"
        told += f" The {which} before the first screenshot are frames of a video of this task, in order."
    return told, found


async def _place(name: str, folder: Path) -> Path:
    if "://" in name:
        return await Assets(default_cache(), folder / MEDIA).get(name)
    return _below(name, folder, ("",))


def _video(name: str, folder: Path) -> Path:
    return _below(name, folder, _VIDEOS)


def _below(name: str, folder: Path, endings: Sequence[str]) -> Path:
    """The file of a name in the folder of media. Raises FaultError if there is none."""
    media = (folder / MEDIA).resolve()
    for ending in endings:
        path = (media / f"{name}{ending}").resolve()
        if path.is_relative_to(media) and path.is_file():
            return path
    raise _fault("missing_asset", f"{name!r} is not in {media}")


def _picture(data: bytes, name: str) -> Picture:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            return _small(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise _fault("bad_asset", f"{name!r} is no picture: {error}") from error


def _small(image: "Image.Image") -> Picture:
    plain = image.convert("RGB")
    plain.thumbnail((_SIDE, _SIDE))
    out = io.BytesIO()
    plain.save(out, "JPEG", quality=90)
    return Picture(out.getvalue(), "image/jpeg")


def _frames(path: Path, name: str) -> list[Picture]:
    try:
        import av
    except ImportError:
        raise MissingProgram("frames of videos need the package av: pip install 'guiagent[video]'") from None
    try:
        with av.open(str(path)) as container:
            seconds = (container.duration or 0) / av.time_base
            times = [seconds * (2 * number + 1) / (2 * FRAMES) for number in range(FRAMES)]
            return [_small(one) for one in _at(container, times)]
    except (av.FFmpegError, IndexError, ValueError) as error:
        raise _fault("bad_asset", f"{name!r} is no video: {error}") from error


def _at(container: "InputContainer", times: Sequence[float]) -> "Iterator[Image.Image]":
    """The pictures of a video at these times, in seconds, or the last one before."""
    import av

    for time in times:
        container.seek(int(time * av.time_base))
        shown = None
        for _, frame in zip(range(_AHEAD), container.decode(video=0), strict=False):
            if shown is not None and (frame.time or 0.0) > time:
                break
            shown = frame
        if shown is not None:
            yield shown.to_image()  # type: ignore[no-untyped-call]


def _fault(code: str, message: str) -> FaultError:
    return FaultError(Fault("task", code, message))
