"""Shell commands for files, as in toybox: `ls`, `cat`, `cp`, `find`, `stat`, `md5sum`, ..."""

import fnmatch
import getopt
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from devices.phone.shell.session import Call, Program, UsageFailure
from devices.phone.storage import Storage

_CHUNK = 64 << 10
_MAX_FOUND = 20_000
_OWNER = "shell"


def options(call: Call, letters: str, long: Sequence[str] = ()) -> tuple[dict[str, str], list[str]]:
    """Parse flags (by name without dashes) and the other words. Raises UsageFailure for an unknown flag."""
    try:
        flags, rest = getopt.gnu_getopt(call.arguments, letters, list(long))
    except getopt.GetoptError as error:
        raise UsageFailure(f"{call.name}: {error}") from None
    return {name.lstrip("-"): value for name, value in flags}, rest


async def ls(call: Call) -> int:
    flags, paths = options(call, "1aAldRhtrSFpi")
    code, storage = 0, call.machine.storage
    for path in paths or ["."]:
        try:
            host = call.machine.storage.read(path, call.session.cwd)
        except OSError as error:
            code = await call.complain(f"ls: {call.machine.storage.explain(error)}")
            continue
        if not host.is_dir() or "d" in flags:
            await call.say(_entry(path, host, flags, storage))
            continue
        if len(paths) > 1 or "R" in flags:
            await call.say(f"{path}:\n")
        await call.say(_listing(host, flags, storage))
        if "R" in flags:
            for below in sorted(one for one in host.rglob("*") if one.is_dir()):
                listing = _listing(below, flags, storage)
                await call.say(f"\n{path.rstrip('/')}/{below.relative_to(host)}:\n{listing}")
    return code


def _listing(folder: Path, flags: dict[str, str], storage: Storage) -> str:
    entries = [entry for entry in folder.iterdir() if {"a", "A"} & flags.keys() or entry.name[0] != "."]
    order: Callable[[Path], object] = lambda entry: entry.name  # noqa: E731
    if "t" in flags:
        order = lambda entry: (-entry.lstat().st_mtime, entry.name)  # noqa: E731
    elif "S" in flags:
        order = lambda entry: (-entry.lstat().st_size, entry.name)  # noqa: E731
    entries.sort(key=order, reverse="r" in flags)  # type: ignore[arg-type]
    total = f"total {sum(entry.lstat().st_blocks for entry in entries) // 2}\n" if "l" in flags else ""
    return total + "".join(_entry(entry.name, entry, flags, storage) for entry in entries)


def _entry(name: str, host: Path, flags: dict[str, str], storage: Storage) -> str:
    if "l" not in flags:
        return f"{name}{'/' if {'F', 'p'} & flags.keys() and host.is_dir() else ''}\n"
    found = host.lstat()
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(storage.modified(found)))
    mode = f"{stat.filemode(found.st_mode)} {found.st_nlink} {_OWNER} {_OWNER}"
    return f"{mode} {found.st_size:>8} {when} {name}\n"


async def cat(call: Call) -> int:
    for path in call.arguments or ["-"]:
        if path == "-":
            while data := await call.stdin.read():
                await call.stdout.write(data)
            continue
        for data in chunks(call, path):
            await call.stdout.write(data)
    return 0


def chunks(call: Call, path: str) -> Iterator[bytes]:
    with call.machine.storage.read(path, call.session.cwd).open("rb") as file:
        while data := file.read(_CHUNK):
            yield data


async def mkdir(call: Call) -> int:
    flags, paths = options(call, "pm:v")
    for path in paths:
        host = call.machine.storage.write(path, call.session.cwd)
        host.mkdir(parents="p" in flags, exist_ok="p" in flags)
        call.machine.changed(path)
    return 0


async def rm(call: Call) -> int:
    flags, paths = options(call, "rRfdv")
    recursive, code = bool({"r", "R"} & flags.keys()), 0
    for path in paths:
        try:
            host = call.machine.storage.write(path, call.session.cwd)
            if host.is_dir() and not host.is_symlink():
                if not recursive:
                    raise UsageFailure(f"rm: {path}: is a directory")
                shutil.rmtree(host)
            else:
                host.unlink(missing_ok="f" in flags)
        except OSError as error:
            code = await call.complain(f"rm: {call.machine.storage.explain(error)}")
        call.machine.changed(path)
    return code


async def rmdir(call: Call) -> int:
    for path in call.arguments:
        call.machine.storage.write(path, call.session.cwd).rmdir()
        call.machine.changed(path)
    return 0


async def mv(call: Call) -> int:
    _, paths = options(call, "fnv")
    for source, target in _pairs(call, paths):
        call.machine.storage.write(source, call.session.cwd)
        shutil.move(call.machine.storage.read(source, call.session.cwd), target)
        call.machine.changed(source)
    call.machine.changed(paths[-1])
    return 0


async def cp(call: Call) -> int:
    flags, paths = options(call, "rRpafv")
    for source, target in _pairs(call, paths):
        host = call.machine.storage.read(source, call.session.cwd)
        if not host.is_dir():
            shutil.copy2(host, target)
        elif {"r", "R", "a"} & flags.keys():
            shutil.copytree(host, target, dirs_exist_ok=True)
        else:
            raise UsageFailure(f"cp: Skipped dir '{source}'")
    call.machine.changed(paths[-1])
    return 0


def _pairs(call: Call, paths: Sequence[str]) -> list[tuple[str, Path]]:
    if len(paths) < 2:
        raise UsageFailure(f"{call.name}: needs two files")
    target = call.machine.storage.path(paths[-1], call.session.cwd)
    names = [source.rstrip("/").rpartition("/")[2] for source in paths[:-1]]
    try:
        into = call.machine.storage.read(target).is_dir()
    except FileNotFoundError:
        into = False
    if not into and len(names) > 1:
        raise UsageFailure(f"{call.name}: '{paths[-1]}' not directory")
    places = [f"{target}/{name}" if into else target for name in names]
    return [(source, call.machine.storage.write(place)) for source, place in zip(paths, places, strict=False)]


async def touch(call: Call) -> int:
    """`touch [-c] FILE...`: set times to that of the phone's own clock."""
    now = call.machine.phone.state.clock.now() / 1000
    flags, paths = options(call, "cam")
    for path in paths:
        host = call.machine.storage.write(path, call.session.cwd)
        if host.exists() or "c" not in flags:
            host.touch()
            os.utime(host, (now, now))
        call.machine.changed(path)
    return 0


async def stat_(call: Call) -> int:
    flags, paths = options(call, "c:Lf")
    storage = call.machine.storage
    for path in paths:
        found = storage.read(path, call.session.cwd).lstat()
        modified = storage.modified(found)
        fields = {
            "%n": path,
            "%s": found.st_size,
            "%Y": int(modified),
            "%a": format(stat.S_IMODE(found.st_mode), "o"),
            "%A": stat.filemode(found.st_mode),
            "%F": "directory" if stat.S_ISDIR(found.st_mode) else "regular file",
            "%U": _OWNER,
            "%G": _OWNER,
            "%y": time.strftime("%Y-%m-%d %H:%M:%S.000000000 +0000", time.gmtime(modified)),
        }
        text = flags.get("c", "  File: %n\n  Size: %s\t %F\nAccess: (%a/%A)\tUid: %U\tGid: %G\nModify: %y")
        for name, value in fields.items():
            text = text.replace(name, str(value))
        await call.say(f"{text}\n")
    return 0


async def find(call: Call) -> int:
    """`find [PATH...] [-name P] [-iname P] [-type f|d] [-mindepth N] [-maxdepth N] [-delete]`.

    `-delete` goes through what is in a folder before the folder itself.
    """
    words = list(call.arguments)
    paths = []
    while words and not words[0].startswith("-"):
        paths.append(words.pop(0))
    tests: list[Callable[[Path, int], bool]] = []
    depth_limit, delete = 64, False
    while words:
        option = words.pop(0)
        if option == "-delete":
            delete = True
            continue
        if option in ("-print",):
            continue
        if not words:
            raise UsageFailure(f"find: {option} needs a value")
        value = words.pop(0)
        match option, value:
            case "-name", _:
                tests.append(lambda host, _, value=value: fnmatch.fnmatchcase(host.name, value))  # type: ignore[misc]
            case "-iname", _:
                tests.append(lambda host, _, value=value: fnmatch.fnmatch(host.name.lower(), value.lower()))  # type: ignore[misc]
            case "-type", "f":
                tests.append(lambda host, _: host.is_file())
            case "-type", "d":
                tests.append(lambda host, _: host.is_dir())
            case (("-maxdepth" | "-mindepth"), _) if value.isdecimal():
                if option == "-maxdepth":
                    depth_limit = int(value)
                else:
                    tests.append(lambda _, depth, least=int(value): depth >= least)  # type: ignore[misc]
            case _:
                raise UsageFailure(f"find: bad arg '{option}'")
    count = 0
    for path in paths or ["."]:
        root = call.machine.storage.read(path, call.session.cwd)
        found = [root, *sorted(root.rglob("*"))] if root.is_dir() else [root]
        for host in reversed(found) if delete else found:
            depth = len(host.relative_to(root).parts)
            if depth > depth_limit or not all(test(host, depth) for test in tests):
                continue
            name = path if host == root else f"{path.rstrip('/')}/{host.relative_to(root)}"
            count += 1
            if count > _MAX_FOUND:
                raise UsageFailure(f"find: more than {_MAX_FOUND} files")
            if delete:
                target = call.machine.storage.write(name, call.session.cwd)
                target.rmdir() if target.is_dir() and not target.is_symlink() else target.unlink()
                call.machine.changed(name)
            else:
                await call.say(f"{name}\n")
    return 0


async def df(call: Call) -> int:
    usage = shutil.disk_usage(call.machine.storage.read("/"))
    total, used, free = (value >> 10 for value in (usage.total, usage.used, usage.free))
    percent = 100 * used // max(total, 1)
    await call.say(
        "Filesystem     1K-blocks      Used Available Use% Mounted on\n"
        f"/dev/virtual {total:>11} {used:>9} {free:>9} {percent:>3}% /data\n"
        f"/dev/virtual {total:>11} {used:>9} {free:>9} {percent:>3}% /storage/emulated\n"
    )
    return 0


async def du(call: Call) -> int:
    flags, paths = options(call, "skhad:")
    for path in paths or ["."]:
        root = call.machine.storage.read(path, call.session.cwd)
        size = sum(
            one.lstat().st_size
            for one in ([root, *root.rglob("*")] if root.is_dir() else [root])
            if one.is_file()
        )
        kilobytes = -(-size // 1024)
        await call.say(f"{f'{kilobytes}K' if 'h' in flags else kilobytes}\t{path}\n")
    return 0


async def digest(call: Call) -> int:
    kind = call.name.removesuffix("sum")
    _, paths = options(call, "b")
    for path in paths:
        total = hashlib.new(kind, usedforsecurity=False)
        for data in chunks(call, path):
            total.update(data)
        await call.say(f"{total.hexdigest()}{'' if 'b' in call.arguments else f'  {path}'}\n")
    if not paths:
        await call.say(f"{hashlib.new(kind, await call.read_all(), usedforsecurity=False).hexdigest()}  -\n")
    return 0


async def chmod(call: Call) -> int:
    """Check that the files exist and may be written; they have no owners or modes of their own here."""
    _, words = options(call, "Rfv")
    for path in words[1:]:
        call.machine.storage.write(path, call.session.cwd)
        call.machine.storage.read(path, call.session.cwd)
    return 0


async def cd(call: Call) -> int:
    path = call.machine.storage.path(call.arguments[0] if call.arguments else "/", call.session.cwd)
    if not call.machine.storage.read(path).is_dir():
        raise UsageFailure(f"/system/bin/sh: cd: {path}: Not a directory", 2)
    call.session.cwd = path
    return 0


async def pwd(call: Call) -> int:
    await call.say(f"{call.session.cwd}\n")
    return 0


async def realpath(call: Call) -> int:
    for path in call.arguments:
        call.machine.storage.read(path, call.session.cwd)
        await call.say(f"{call.machine.storage.path(path, call.session.cwd)}\n")
    return 0


async def tee(call: Call) -> int:
    flags, paths = options(call, "a")
    files = [call.machine.storage.write(path, call.session.cwd) for path in paths]
    data = await call.read_all()
    for path, host in zip(paths, files, strict=True):
        with host.open("ab" if "a" in flags else "wb") as file:
            file.write(data)
        call.machine.changed(path)
    await call.stdout.write(data)
    return 0


async def test(call: Call) -> int:
    """`test` and `[`: -e -f -d -s -z -n, = and !=, -eq -ne -lt -le -gt -ge, and a leading !."""
    words = list(call.arguments)
    if call.name == "[" and (not words or words.pop() != "]"):
        raise UsageFailure("[: missing ]", 2)
    negated = words[:1] == ["!"]
    words = words[1:] if negated else words
    return int(_holds(call, words) is negated)


def _holds(call: Call, words: list[str]) -> bool:
    match words:
        case []:
            return False
        case [text] | ["-n", text]:
            return bool(text)
        case ["-z", text]:
            return not text
        case ["-e" | "-f" | "-d" | "-s" | "-r" | "-w" as kind, path]:
            try:
                host = call.machine.storage.read(path, call.session.cwd)
            except OSError:
                return False
            match kind:
                case "-f":
                    return host.is_file()
                case "-d":
                    return host.is_dir()
                case "-s":
                    return host.lstat().st_size > 0
            return True
        case [left, "=" | "==", right]:
            return left == right
        case [left, "!=", right]:
            return left != right
        case [left, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" as sign, right]:
            try:
                difference = int(left) - int(right)
            except ValueError:
                raise UsageFailure("test: not a number", 2) from None
            return {
                "-eq": difference == 0,
                "-ne": difference != 0,
                "-lt": difference < 0,
                "-le": difference <= 0,
                "-gt": difference > 0,
                "-ge": difference >= 0,
            }[sign]
    raise UsageFailure(f"test: cannot read {' '.join(words)!r}", 2)


PROGRAMS: dict[str, Program] = {
    "[": test,
    "cat": cat,
    "cd": cd,
    "chmod": chmod,
    "cp": cp,
    "df": df,
    "du": du,
    "find": find,
    "ls": ls,
    "md5sum": digest,
    "mkdir": mkdir,
    "mv": mv,
    "pwd": pwd,
    "realpath": realpath,
    "rm": rm,
    "rmdir": rmdir,
    "sha1sum": digest,
    "sha256sum": digest,
    "stat": stat_,
    "tee": tee,
    "test": test,
    "touch": touch,
}
