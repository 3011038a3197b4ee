"""Tasks in the text editor."""

from collections.abc import Mapping
from random import Random

from rewards.tasksets.desktop.scenario import (
    HOME,
    Play,
    Scenario,
    Template,
    compared,
    edited,
    keys,
    launched,
    opened_by,
    pause,
    placed,
    printed,
    ran,
    shell,
    typed,
    wait_for,
    window,
)
from rewards.tasksets.desktop.words import WORDS

_DESK = f"{HOME}/Desktop"


def _text(instruction: str, name: str, before: str, gold: str, writing: Play,
          misses: Mapping[str, str]) -> Scenario:  # fmt: skip
    """A file of the folder Documents that is open in the editor; `writing` makes its text the gold one."""
    path = f"{HOME}/Documents/{name}"
    unsaved: Play = [wait_for(name), pause(0.7), *writing]
    return edited(
        instruction,
        path,
        before.encode(),
        gold.encode(),
        lambda gold: compared("compare_text_file", path, gold),
        {what: text.encode() for what, text in misses.items()},
        begin=opened_by("mousepad", path),
        solution=[*unsaved, keys("Control+s"), pause(0.7)],
        unsaved=unsaved,
    )


def _anew(text: str) -> Play:
    """Type a text in place of the whole one."""
    return [keys("Control+a"), typed(text)]


def _lines(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def _add_line(random: Random) -> Scenario:
    first, second, last = random.sample(WORDS, 3)
    return _text(
        f"In the open editor, add a last line with the word {last} to note.txt, and save it.",
        "note.txt",
        _lines(first, second),
        _lines(first, second, last),
        [keys("Control+End"), typed(f"{last}\n")],
        {"the first line": _lines(last, first, second), "on the last line": f"{first}\n{second} {last}\n"},
    )


def _replace_word(random: Random) -> Scenario:
    old, new, filler = random.sample(WORDS, 3)
    before = _lines(*(random.choice((old, filler)) for _ in range(12)), old, filler)
    return _text(
        f'Replace every "{old}" in the open file poem.txt by "{new}", and save it.',
        "poem.txt",
        before,
        before.replace(old, new),
        _anew(before.replace(old, new)),
        {"one left": before.replace(old, new, before.count(old) - 1)},
    )


def _done(random: Random) -> Scenario:
    words = random.sample(WORDS, 6)
    done = set(random.sample(words[:-1], 2))
    lines = [f"{'x' if word in done else '-'} call {word}" for word in words]
    left = [line for line in lines if line.startswith("-")]
    return _text(
        "In my list todo.txt, which is open, what is done begins with an x. Take these lines out, leave the "
        "others as they are, and save the list.",
        "todo.txt",
        _lines(*lines),
        _lines(*left),
        _anew(_lines(*left)),
        {
            "one left": _lines(*(line for line in lines if line in left or line.endswith(min(done)))),
            "an empty line": _lines(*left[:1], "", *left[1:]),
            "only what is done": _lines(*(line for line in lines if line not in left)),
        },
    )


def _settings(random: Random) -> Scenario:
    old, new, seconds = random.randrange(8000, 8100), random.randrange(9000, 9100), random.randrange(20, 60)

    def file(port: int, server: str = "", client: str = "") -> str:
        return f"[server]\nhost=127.0.0.1\nport={port}\n{server}\n[client]\nport={old}\n{client}retries=3\n"

    line = f"timeout={seconds}\n"
    return _text(
        f"The server shall listen on port {new}, and give up after {seconds} seconds: change the port in the "
        f'section [server] of the open file settings.ini, and add the line "{line.strip()}" right below it. '
        "The client's section stays as it is. Save the file.",
        "settings.ini",
        file(old),
        file(new, line),
        _anew(file(new, line)),
        {
            "the port alone": file(new),
            "the line below the client's": file(new, client=line),
            "both ports": file(new, line).replace(str(old), str(new)),
        },
    )


def _sorted_lines(random: Random) -> Scenario:
    words = random.sample(WORDS, 7)
    if words == sorted(words):
        words.reverse()
    return _text(
        "Put the lines of words.txt, which is open in the editor, in alphabetical order, and save the file.",
        "words.txt",
        _lines(*words),
        _lines(*sorted(words)),
        _anew(_lines(*sorted(words))),
        {
            "backwards": _lines(*sorted(words, reverse=True)),
            "one lost": _lines(*sorted(words)[:-1]),
            "two changed places": _lines(*sorted(words)[:5], *sorted(words)[:4:-1]),
        },
    )


def _new_file(random: Random) -> Scenario:
    name, word = random.sample(WORDS, 2)
    path = f"{HOME}/Documents/{name}.txt"
    return Scenario(
        f"Write the word {word} into a new text file and save it as {name}.txt in the folder Documents.",
        [ran(f"mkdir -p {HOME}/Documents"), launched("mousepad"), window("Mousepad")],
        printed(f"cat {path} | tr -d '[:space:]'", word),
        [*(wait_for("Mousepad"), pause(0.7), typed(word), keys("Control+s")), *_saved_at(path)],
        {
            "on the desktop": [shell(f"echo {word} > {_DESK}/{name}.txt")],
            "another word": [shell(f"echo {name} > {path}")],
        },
    )


def _other_name(random: Random) -> Scenario:
    name, word, old, new = random.sample(WORDS, 4)
    path, copy = f"{HOME}/Documents/{name}.txt", f"{_DESK}/{name}-{new}.txt"
    before, after = _lines(word, old), _lines(word, new)
    return Scenario(
        f"{name}.txt is open in the editor. Save it with {new} in its last line, instead of {old}, as "
        f"{name}-{new}.txt on the desktop; {name}.txt itself stays as it is.",
        [placed("before.txt", path), *opened_by("mousepad", path)],
        printed(f"cat {copy} && echo and && cat {path}", f"{after}and\n{before}"),
        [
            *(wait_for(f"{name}.txt"), pause(0.7), *_anew(after), keys("Control+Shift+s")),
            *_saved_at(copy),
        ],
        {
            "in place": [wait_for(f"{name}.txt"), pause(0.7), *_anew(after), keys("Control+s"), pause(0.7)],
            "both": [shell(f"printf '{word}\\n{new}\\n' | tee {path} > {copy}")],
            "a copy": [shell(f"cp {path} {copy}")],
        },
        {"before.txt": before.encode()},
    )


def _saved_at(path: str) -> Play:
    """Give the dialog a path: the first Enter takes the completed path, the second saves."""
    named = [keys("Control+a"), typed(path, submit=True)]
    return [wait_for("Save"), pause(0.7), *named, pause(0.7), keys("Enter"), pause(1.0)]


TEMPLATES = (
    Template("editor-add-line", ("editor",), _add_line, screen=True),
    Template("editor-replace-word", ("editor",), _replace_word, screen=True),
    Template("editor-new-file", ("editor",), _new_file, screen=True),
    Template("editor-take-out-done", ("editor",), _done, screen=True),
    Template("editor-settings", ("editor",), _settings, screen=True),
    Template("editor-sort-lines", ("editor",), _sorted_lines, screen=True),
    Template("editor-other-name", ("editor",), _other_name, screen=True),
)
