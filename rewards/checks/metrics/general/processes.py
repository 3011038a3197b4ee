"""Decode media files of the agent's by ffmpeg, limited in time and memory."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from guiagent.errors import MissingProgram
from rewards.checks.archives import UnreadableError, checked_size

# Formats that hold their content themselves: none that names other files or addresses, as playlists do.
_FORMATS = "aac,aiff,amr,asf,avi,flac,flv,matroska,mov,mp3,mpeg,mpegts,ogg,wav"
_CONFINED = ("-v", "error", "-protocol_whitelist", "file,pipe", "-format_whitelist", _FORMATS)


def decoded(path: Path, *output: str) -> bytes:
    """Decode a media file by ffmpeg with these output options.

    Raises:
        UnreadableError: it is no media file, or takes more than two minutes of work or 256 MiB of output.
        InfrastructureError: there is no ffmpeg.
    """
    return _media(
        "ffmpeg", path, "-nostdin", "-threads", "1", *_CONFINED, "-i", f"file:{path}", *output, "pipe:1"
    )


def described(path: Path) -> bytes:
    """The tags of a media file as ffprobe's JSON, `{"format": {"tags": {...}}}`. Raises as `decoded` does."""
    asked = ("-show_entries", "format_tags", "-of", "json")
    return _media("ffprobe", path, *_CONFINED, *asked, f"file:{path}")


def _media(program: str, path: Path, *options: str) -> bytes:
    checked_size(path)
    if shutil.which(program) is None:
        raise MissingProgram(f"{program} is missing: apt-get install ffmpeg")
    printed = _printed([program, *options], seconds=120, memory=4 << 30, output=256 << 20)
    if printed is None:
        raise UnreadableError(f"{path.name} is no media file, or too long a one")
    return printed


def _printed(command: list[str], seconds: int, memory: int, output: int) -> bytes | None:
    """Run a command and return what it prints; None if it fails or exceeds a limit.

    The limits are seconds of CPU time, bytes of address space and bytes of output. On a busy machine it may
    last five times its CPU time.
    """
    limits = [f"--as={memory}", f"--fsize={output}", f"--cpu={seconds}", "--core=0"]
    if shutil.which("prlimit") is None:
        raise MissingProgram("prlimit is missing: apt-get install util-linux")
    with tempfile.TemporaryFile() as printed:
        try:
            subprocess.run(
                ["prlimit", *limits, "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.DEVNULL,
                timeout=5 * seconds,
                check=True,
            )
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            return None
        printed.seek(0)
        return printed.read()
