"""Parser of the shell's small language: words, quotes, variables, pipes, lists, redirections, loops, `if`.

Unsupported syntax (functions, `case`, command substitution, background jobs) is refused, never guessed.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

MAX_SCRIPT = 64 << 10
_MAX_PARTS = 10_000
_MAX_DEPTH = 20  # of loops and conditions in one another
_SPACE = " \t\r"
_ENDS_WORD = _SPACE + "\n;&|<>()"
_OPENING = ("for", "while", "until", "if")
_RESERVED = frozenset(
    {*_OPENING, "do", "done", "then", "elif", "else", "fi", "case", "esac", "function", "{", "}"}
)
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")

Link = Literal[";", "&&", "||"]


_REDIRECTS: dict[str, Literal[0, 1, 2]] = {"<": 0, ">": 1, "1>": 1, "2>": 2}


class ScriptError(Exception):
    """A script that cannot be run; the message is what the shell prints."""


class Part(NamedTuple):
    """A piece of a word. A variable's `text` is its name; only unquoted text may match file names."""

    text: str
    quoted: bool = False
    variable: bool = False


Word = tuple[Part, ...]


class Redirect(NamedTuple):
    stream: Literal[0, 1, 2]
    append: bool
    target: Word | Literal[1, 2]  # a file, or the stream to join (`2>&1`)


@dataclass(slots=True)
class Command:
    words: list[Word] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class For:
    """`for NAME in WORDS; do BODY; done`."""

    name: str
    words: list[Word]
    body: "list[Pipeline]"
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class While:
    """`while CONDITION; do BODY; done`; `until` where the loop goes on while the condition fails."""

    until: bool
    condition: "list[Pipeline]"
    body: "list[Pipeline]"
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class If:
    """`if CONDITION; then BODY; elif ...; else ...; fi`: the branches in order, and what is done else."""

    branches: "list[tuple[list[Pipeline], list[Pipeline]]]"
    otherwise: "list[Pipeline]"
    redirects: list[Redirect] = field(default_factory=list)


Stage = Command | For | While | If


@dataclass(slots=True)
class Pipeline:
    link: Link  # how it depends on the pipeline before it
    commands: list[Stage] = field(default_factory=lambda: [Command()])


def parse(script: str) -> list[Pipeline]:
    """Parse a script into pipelines. Raises ScriptError."""
    if len(script) > MAX_SCRIPT:
        raise ScriptError(f"a script may have {MAX_SCRIPT} characters")
    return _Parser(script).parse()


class _Parser:
    def __init__(self, script: str) -> None:
        self._text = script
        self._at = 0
        self._count = 0
        self._depth = 0

    def parse(self) -> list[Pipeline]:
        return self._until(())[0]

    def _until(self, ends: tuple[str, ...]) -> tuple[list[Pipeline], str]:
        """Read pipelines, and the reserved word among `ends` that ends them: "" for the end of the script."""
        pipelines, end = [Pipeline(";")], ""
        while self._at < len(self._text) and not end:
            character = self._text[self._at]
            stage = pipelines[-1].commands[-1]
            if character in _SPACE:
                self._at += 1
            elif character == "#":
                self._skip_comment()
            elif self._took("&&"):
                pipelines.append(Pipeline("&&"))
                _require(stage, "&&")
            elif self._took("||"):
                pipelines.append(Pipeline("||"))
                _require(stage, "||")
            elif self._took(";") or self._took("\n"):
                pipelines.append(Pipeline(";"))
                if len(pipelines[-2].commands) > 1:
                    _require(stage, character)
            elif self._took("|"):
                _require(stage, "|")
                pipelines[-1].commands.append(Command())
            elif character in "&()":
                raise ScriptError(f"syntax error: unexpected '{character}'")
            elif redirect := self._redirect():
                stage.redirects.append(redirect)
            else:
                end = self._more(pipelines[-1], ends)
            self._count += 1
            if self._count > _MAX_PARTS:
                raise ScriptError("too long a script")
        if ends and not end:
            raise ScriptError(f"syntax error: no '{ends[-1]}'")
        last = pipelines[-1]
        if last.link != ";" or len(last.commands) > 1:
            _require(last.commands[-1], end or "end of script")
        return [pipeline for pipeline in pipelines if not _is_empty(pipeline.commands[0])], end

    def _more(self, pipeline: Pipeline, ends: tuple[str, ...]) -> str:
        """Add the next word, or the loop or condition that it begins; return it if it is one of `ends`."""
        stage, word = pipeline.commands[-1], self._word()
        name = word[0].text if len(word) == 1 and not (word[0].quoted or word[0].variable) else ""
        if _is_empty(stage) and name in ends:
            return name
        if _is_empty(stage) and name in _OPENING:
            pipeline.commands[-1] = self._compound(name)
        elif not isinstance(stage, Command) or (_is_empty(stage) and name in _RESERVED):
            raise ScriptError(f"syntax error: unexpected '{name or 'word'}'")
        else:
            stage.words.append(word)
        return ""

    def _compound(self, name: str) -> For | While | If:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ScriptError("too many loops in one another")
        stage = self._for() if name == "for" else self._if() if name == "if" else self._while(name == "until")
        self._depth -= 1
        return stage

    def _for(self) -> For:
        name, *words = self._words()
        if not (len(name) == 1 and name[0].text.isidentifier() and words and words[0] == (Part("in"),)):
            raise ScriptError("syntax error: a loop is `for NAME in WORDS; do COMMANDS; done`")
        before, _ = self._until(("do",))
        if before:
            raise ScriptError("syntax error: a loop needs 'do'")
        return For(name[0].text, words[1:], self._until(("done",))[0])

    def _while(self, until: bool) -> While:
        condition, _ = self._until(("do",))
        return While(until, condition, self._until(("done",))[0])

    def _if(self) -> If:
        branches: list[tuple[list[Pipeline], list[Pipeline]]] = []
        end = "elif"
        while end == "elif":
            condition, _ = self._until(("then",))
            body, end = self._until(("elif", "else", "fi"))
            branches.append((condition, body))
        return If(branches, self._until(("fi",))[0] if end == "else" else [])

    def _words(self) -> list[Word]:
        """Read the words up to the end of a line or a `;`."""
        words: list[Word] = []
        while self._at < len(self._text) and self._text[self._at] not in ";\n":
            if self._text[self._at] in _SPACE:
                self._at += 1
            elif self._text[self._at] in _ENDS_WORD:
                raise ScriptError(f"syntax error: unexpected '{self._text[self._at]}'")
            else:
                words.append(self._word())
        return words or [()]

    def _took(self, token: str) -> bool:
        found = self._text.startswith(token, self._at)
        self._at += len(token) if found else 0
        return found

    def _skip_comment(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _redirect(self) -> Redirect | None:
        found = next((sign for sign in _REDIRECTS if self._took(sign)), None)
        if found is None:
            return None
        stream = _REDIRECTS[found]
        append = stream != 0 and self._took(">")
        if stream != 0 and self._took("&"):
            if self._took("1"):
                return Redirect(stream, append, 1)
            if self._took("2"):
                return Redirect(stream, append, 2)
            raise ScriptError("syntax error: only >&1 and >&2 are known")
        while self._at < len(self._text) and self._text[self._at] in _SPACE:
            self._at += 1
        word = self._word()
        if not word:
            raise ScriptError("syntax error: a redirection needs a file")
        return Redirect(stream, append, word)

    def _word(self) -> Word:
        parts: list[Part] = []
        while self._at < len(self._text) and (character := self._text[self._at]) not in _ENDS_WORD:
            self._at += 1
            if character == "'":
                parts.append(Part(self._until_quote(), quoted=True))
            elif character == '"':
                parts += self._double_quoted()
            elif character == "\\":
                parts.append(Part(self._text[self._at : self._at + 1], quoted=True))
                self._at += 1
            elif character == "$":
                parts.append(self._variable(quoted=False))
            elif character == "`":
                raise ScriptError("command substitution is not supported")
            elif parts and not parts[-1].quoted and not parts[-1].variable:
                parts[-1] = Part(parts[-1].text + character)
            else:
                parts.append(Part(character))
        return tuple(parts)

    def _until_quote(self) -> str:
        end = self._text.find("'", self._at)
        if end < 0:
            raise ScriptError("no closing quote")
        text, self._at = self._text[self._at : end], end + 1
        return text

    def _double_quoted(self) -> list[Part]:
        parts: list[Part] = []
        text = ""
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 1
            if character == '"':
                return [*parts, Part(text, quoted=True)]
            if character == "\\" and self._text[self._at : self._at + 1] in ("$", "`", '"', "\\", "\n"):
                text += self._text[self._at]
                self._at += 1
            elif character == "$":
                parts += [Part(text, quoted=True), self._variable(quoted=True)]
                text = ""
            elif character == "`":
                raise ScriptError("command substitution is not supported")
            else:
                text += character
        raise ScriptError("no closing quote")

    def _variable(self, *, quoted: bool) -> Part:
        if self._took("("):
            raise ScriptError("command substitution is not supported")
        if self._took("?"):
            return Part("?", quoted, variable=True)
        braced = self._took("{")
        start = self._at
        while self._at < len(self._text) and self._text[self._at] in _NAME:
            self._at += 1
        name = self._text[start : self._at]
        if braced and (not name or not self._took("}")):
            raise ScriptError("only ${NAME} is known")
        return Part(name, quoted, variable=True) if name else Part("$", quoted)


def _is_empty(stage: Stage) -> bool:
    return isinstance(stage, Command) and not stage.words


def _require(stage: Stage, before: str) -> None:
    if _is_empty(stage):
        token = {"\n": "newline"}.get(before, before)
        raise ScriptError(f"syntax error: unexpected '{token}'")
