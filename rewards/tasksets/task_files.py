"""Task files of others: read within bounds, and the texts in them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from guiagent.errors import InfrastructureError, UsageError


def content(path: Path, most: int, kind: str = "a task file") -> bytes:
    """Return the bytes of a file that a user named; `kind` is what messages call it.

    Raises:
        UsageError: there is none, or it is larger than `most` bytes, which are whole MiB.
        InfrastructureError: it cannot be read.
    """
    try:
        if path.stat().st_size > most:
            raise UsageError(f"{path}: {kind} has at most {most >> 20} MiB")
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"there is no {path}") from None
    except OSError as error:
        raise InfrastructureError(f"cannot read {path}: {error.strerror}") from error


def texts(value: object) -> Iterator[str]:
    """Yield all texts of a JSON value but the names in its objects."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from texts(item)
        case Mapping():
            yield from texts(list(value.values()))
