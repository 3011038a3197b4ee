"""One shell session: variables, working directory, streams of each command, and running a parsed script."""

import asyncio
import fnmatch
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from devices.phone.machine import Machine
from devices.phone.shell.grammar import (
    Command,
    For,
    If,
    Pipeline,
    Redirect,
    ScriptError,
    Stage,
    While,
    Word,
    parse,
)
from devices.phone.storage import MAX_FILE
from guiagent.errors import UsageError

_PIPE = 64 << 10
_MAX_MATCHES = 10_000
_MAX_ROUNDS = 10_000  # of a loop whose end is not known
_VARIABLES = {
    "HOME": "/",
    "USER": "shell",
    "SHELL": "/bin/sh",
    "EXTERNAL_STORAGE": "/sdcard",
    "TMPDIR": "/data/local/tmp",
    "ANDROID_DATA": "/data",
}


class Input(Protocol):
    async def read(self) -> bytes:
        """Return the next data; b"" at the end."""
        ...


class Output(Protocol):
    async def write(self, data: bytes) -> None:
        """Write `data`. Raises ConnectionError if the reader has left."""
        ...


@dataclass(slots=True)
class Call:
    """A running command: its arguments, without its name, and its streams."""

    name: str
    arguments: list[str]
    session: "Session"
    stdin: Input
    stdout: Output
    stderr: Output

    @property
    def machine(self) -> Machine:
        return self.session.machine

    async def say(self, text: str) -> None:
        await self.stdout.write(text.encode("utf-8", "surrogateescape"))

    async def complain(self, text: str) -> int:
        """Write one line to stderr and return the exit code of a failure."""
        await self.stderr.write(f"{text}\n".encode("utf-8", "replace"))
        return 1

    async def read_all(self, limit: int = MAX_FILE) -> bytes:
        data = bytearray()
        while chunk := await self.stdin.read():
            data += chunk
            if len(data) > limit:
                raise UsageFailure(f"{self.name}: more than {limit} bytes of input")
        return bytes(data)


class UsageFailure(Exception):
    """Wrong use of a command; the message goes to its stderr, and it exits with `code`."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


Program = Callable[[Call], Awaitable[int]]


class _Leave(Exception):
    """`break` or `continue`, on its way to the loop that it leaves."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Nothing:
    """/dev/null."""

    async def read(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        pass


class Pipe:
    """Bounded pipe between two commands; writing raises BrokenPipeError once the reader has left."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._change = asyncio.Condition()
        self._written = False
        self._left = False

    async def read(self) -> bytes:
        async with self._change:
            await self._change.wait_for(lambda: self._data or self._written)
            data = bytes(self._data)
            self._data.clear()
            self._change.notify_all()
            return data

    async def write(self, data: bytes) -> None:
        async with self._change:
            await self._change.wait_for(lambda: len(self._data) < _PIPE or self._left)
            if self._left:
                raise BrokenPipeError
            self._data += data
            self._change.notify_all()

    async def close(self, *, reader: bool) -> None:
        async with self._change:
            self._left |= reader
            self._written |= not reader
            self._change.notify_all()


class FileOutput:
    def __init__(self, path: Path, *, append: bool) -> None:
        self._file = path.open("ab" if append else "wb")
        self._size = path.stat().st_size

    async def write(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > MAX_FILE:
            raise UsageFailure(f"a file may have {MAX_FILE >> 20} MiB")
        self._file.write(data)

    def close(self) -> None:
        self._file.close()


class FileInput:
    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")

    async def read(self) -> bytes:
        return self._file.read(_PIPE)

    def close(self) -> None:
        self._file.close()


@dataclass(slots=True)
class Session:
    machine: Machine
    programs: Mapping[str, Program]
    cwd: str = "/"
    variables: dict[str, str] = field(default_factory=lambda: dict(_VARIABLES))
    code: int = 0  # of the last command
    ended: bool = False  # by `exit`
    _loops: int = 0  # around the command that runs

    async def run(self, script: str, stdin: Input, stdout: Output, stderr: Output) -> int:
        """Run a script and return the exit code of its last command; 2 if it cannot be parsed."""
        try:
            pipelines = parse(script)
        except ScriptError as error:
            await stderr.write(f"/system/bin/sh: {error}\n".encode())
            self.code = 2
            return 2
        return await self._run(pipelines, stdin, stdout, stderr)

    async def _run(self, pipelines: list[Pipeline], stdin: Input, stdout: Output, stderr: Output) -> int:
        for pipeline in pipelines:
            if (pipeline.link == "&&" and self.code) or (pipeline.link == "||" and not self.code):
                continue
            self.code = await self._pipeline(pipeline, stdin, stdout, stderr)
            if self.ended:
                break
        return self.code

    async def _pipeline(self, pipeline: Pipeline, stdin: Input, stdout: Output, stderr: Output) -> int:
        if len(pipeline.commands) == 1:
            return await self._command(pipeline.commands[0], stdin, stdout, stderr)
        pipes = [Pipe() for _ in pipeline.commands[1:]]
        inputs: list[Input] = [stdin, *pipes]
        outputs: list[Output] = [*pipes, stdout]

        async def stage(number: int, command: Stage) -> int:
            try:
                return await self._command(command, inputs[number], outputs[number], stderr)
            except _Leave:  # it leaves its own part of the pipeline
                return 0
            finally:
                if number:
                    await pipes[number - 1].close(reader=True)
                if number < len(pipes):
                    await pipes[number].close(reader=False)

        async with asyncio.TaskGroup() as group:
            stages = [group.create_task(stage(*each)) for each in enumerate(pipeline.commands)]
        return stages[-1].result()

    async def _command(self, command: Stage, stdin: Input, stdout: Output, stderr: Output) -> int:
        words = self._expanded(command.words) if isinstance(command, Command) else ["sh"]
        while words and _is_assignment(words[0]):
            name, _, value = words.pop(0).partition("=")
            self.variables[name] = value
        while words and words[0] in ("exec", "command", "nohup"):
            del words[0]
        name = words[0].removeprefix("/system/bin/") if words else "sh"
        opened: list[FileInput | FileOutput] = []
        try:
            for redirect in command.redirects:
                if redirect.stream == 0:
                    stdin = self._source(redirect, opened)
                elif redirect.stream == 1:
                    stdout = stderr if redirect.target == 2 else self._sink(redirect, opened, stdout)
                else:
                    stderr = stdout if redirect.target == 1 else self._sink(redirect, opened, stderr)
            if not isinstance(command, Command):
                return await self._compound(command, stdin, stdout, stderr)
            if not words:
                return 0
            if name in ("break", "continue"):
                if not self._loops:
                    await stderr.write(f"/system/bin/sh: {name}: not in a loop\n".encode())
                    return 1
                raise _Leave(name)
            program = self.programs.get(name)
            if program is None:
                await stderr.write(f"/system/bin/sh: {words[0]}: inaccessible or not found\n".encode())
                return 127
            return await program(Call(name, words[1:], self, stdin, stdout, stderr))
        except BrokenPipeError:
            return 141
        except UsageFailure as failure:
            await stderr.write(f"{failure}\n".encode("utf-8", "replace"))
            return failure.code
        except UsageError as error:  # the phone itself refuses, and says why
            await stderr.write(f"{name}: {error}\n".encode("utf-8", "replace"))
            return 1
        except ConnectionError:  # whoever ran the script has left
            raise
        except OSError as error:
            line = f"{name}: {self.machine.storage.explain(error)}\n"
            await stderr.write(line.encode("utf-8", "replace"))
            return 1
        finally:
            for file in opened:
                file.close()

    async def _compound(self, stage: For | While | If, stdin: Input, stdout: Output, stderr: Output) -> int:
        async def run(pipelines: list[Pipeline]) -> int:
            self.code = 0
            return await self._run(pipelines, stdin, stdout, stderr)

        async def goes_on(body: list[Pipeline]) -> bool:
            """Run a loop's body once; False if the loop is over."""
            await asyncio.sleep(0)  # a loop of what never waits holds nobody up
            self._loops += 1
            try:
                await run(body)
            except _Leave as leaving:
                return leaving.how == "continue"
            finally:
                self._loops -= 1
            return not self.ended

        match stage:
            case For(name=name, words=words, body=body):
                self.code = 0
                for text in self._expanded(words):
                    self.variables[name] = text
                    if not await goes_on(body):
                        break
            case While(until=until, condition=condition, body=body):
                last = 0
                for _ in range(_MAX_ROUNDS):
                    if bool(await run(condition)) != until or self.ended or not await goes_on(body):
                        return last
                    last = self.code
                raise UsageFailure(f"a loop of more than {_MAX_ROUNDS} rounds")
            case If(branches=branches, otherwise=otherwise):
                for condition, body in branches:
                    if not await run(condition):
                        return await run(body)
                return await run(otherwise)
        return self.code

    def _expanded(self, words: list[Word]) -> list[str]:
        return [text for word in words for text in self._expand(word)]

    def _source(self, redirect: Redirect, opened: list[FileInput | FileOutput]) -> Input:
        path = self._target(redirect)
        if path == "/dev/null":
            return Nothing()
        opened.append(file := FileInput(self.machine.storage.read(path, self.cwd)))
        return file

    def _sink(self, redirect: Redirect, opened: list[FileInput | FileOutput], same: Output) -> Output:
        if isinstance(redirect.target, int):
            return same
        path = self._target(redirect)
        if path == "/dev/null":
            return Nothing()
        opened.append(file := FileOutput(self.machine.storage.write(path, self.cwd), append=redirect.append))
        self.machine.changed(path)
        return file

    def _target(self, redirect: Redirect) -> str:
        assert not isinstance(redirect.target, int)
        return "".join(self._expand(redirect.target))

    def _expand(self, word: Word) -> list[str]:
        """Expand a word into arguments: its variables, then file names for a pattern outside quotes."""
        text = pattern = ""
        for part in word:
            value = self._value(part.text) if part.variable else part.text
            text += value
            pattern += _escaped(value) if part.quoted or part.variable else value
        if not text and word and not any(part.quoted for part in word):
            return []  # an unset variable by itself is no argument
        if not any(character in part.text for part in word for character in "*?[" if not part.quoted):
            return [text]
        return self._matches(pattern) or [text]

    def _value(self, name: str) -> str:
        return str(self.code) if name == "?" else self.variables.get(name, "")

    def _matches(self, pattern: str) -> list[str]:
        absolute = pattern.startswith("/")
        found = ["/" if absolute else ""]
        for piece in filter(None, pattern.split("/")):
            found = [name for place in found for name in self._children(place, piece)][:_MAX_MATCHES]
        return sorted(found)

    def _children(self, place: str, pattern: str) -> list[str]:
        folder = self.machine.storage.read(place or ".", self.cwd)
        if not folder.is_dir():
            return []
        hidden = pattern.startswith(".")
        names = [entry.name for entry in folder.iterdir() if entry.name.startswith(".") is hidden]
        join = "" if not place or place.endswith("/") else "/"
        return [f"{place}{join}{name}" for name in fnmatch.filter(names, pattern)]


def _is_assignment(word: str) -> bool:
    name, sign, _ = word.partition("=")
    return bool(sign) and name.isidentifier()


def _escaped(text: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)
