"""Tasks on files, in the terminal and in the text editor."""

from random import Random

from rewards.tasksets.desktop.scenario import (
    HOME,
    Play,
    Scenario,
    Template,
    compared,
    keys,
    launched,
    lay,
    pause,
    placed,
    printed,
    ran,
    shell,
    typed,
    wait_for,
    window,
)

_WORDS = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "inlet", "juniper")
_DESK = f"{HOME}/Desktop"
_TERMINAL = [launched("xterm"), window("xterm")]
_READY = [wait_for("xterm"), pause(0.5)]


def _in_terminal(command: str) -> Play:
    return [*_READY, typed(command, submit=True), pause(0.7)]


def _rename(random: Random) -> Scenario:
    old, new, other = random.sample(_WORDS, 3)
    return Scenario(
        f'There is a folder "{old}" on the desktop (~/Desktop). Rename it to "{new}".',
        [ran(f"mkdir -p {_DESK}/{old} {_DESK}/{other} && echo {old} > {_DESK}/{old}/note.txt"), *_TERMINAL],
        printed(f"cd {_DESK} && find . | sort", f".\n./{new}\n./{new}/note.txt\n./{other}\n")
        if new < other
        else printed(f"cd {_DESK} && find . | sort", f".\n./{other}\n./{new}\n./{new}/note.txt\n"),
        _in_terminal(f"mv Desktop/{old} Desktop/{new}"),
        {
            "a copy": [shell(f"cp -r {_DESK}/{old} {_DESK}/{new}")],
            "the other folder": [shell(f"mv {_DESK}/{other} {_DESK}/{new}")],
            "an empty one": [shell(f"rm -r {_DESK}/{old}; mkdir {_DESK}/{new}")],
        },
    )


def _sort_by_kind(random: Random) -> Scenario:
    names = random.sample(_WORDS, 5)
    logs, texts = sorted(names[:3]), sorted(names[3:])
    made = " ".join([*(f"{n}.log" for n in logs), *(f"{n}.txt" for n in texts)])
    want = [".", *(f"./{n}.txt" for n in texts), "./logs", *(f"./logs/{n}.log" for n in logs)]
    return Scenario(
        "Move every .log file of ~/Documents into a new folder ~/Documents/logs, and nothing else.",
        [ran(f"cd {HOME}/Documents && touch {made}"), *_TERMINAL],
        printed(f"cd {HOME}/Documents && find . | LC_ALL=C sort", "".join(f"{n}\n" for n in sorted(want))),
        _in_terminal("cd Documents && mkdir logs && mv *.log logs"),
        {
            "all files": [shell(f"cd {HOME}/Documents && mkdir logs && mv *.* logs")],
            "one left": [
                shell(f"cd {HOME}/Documents && mkdir logs && mv *.log logs && mv logs/{logs[0]}.log .")
            ],
            "copied": [shell(f"cd {HOME}/Documents && mkdir logs && cp *.log logs")],
        },
    )


def _permissions(random: Random) -> Scenario:
    name = random.choice(_WORDS)
    return Scenario(
        f"Make the script ~/Documents/{name}.sh executable for its owner alone; nobody else may read, write "
        "or run it.",
        [ran(f"cd {HOME}/Documents && echo 'echo {name}' > {name}.sh && chmod 644 {name}.sh"), *_TERMINAL],
        printed(f"stat -c %A {HOME}/Documents/{name}.sh", "-rwx------\n"),
        _in_terminal(f"chmod 700 Documents/{name}.sh"),
        {
            "for everybody": [shell(f"chmod 755 {HOME}/Documents/{name}.sh")],
            "not executable": [shell(f"chmod 600 {HOME}/Documents/{name}.sh")],
        },
    )


def _count_lines(random: Random) -> Scenario:
    word, other = random.sample(_WORDS, 2)
    hits = random.randrange(3, 9)
    lines = [f"{i} {word}" for i in range(hits)] + [f"{i} {other}" for i in range(20 - hits)]
    random.shuffle(lines)
    text = "\n".join(lines) + "\n"
    return Scenario(
        f'How many lines of ~/Documents/list.txt contain the word "{word}"? Write the number, and nothing '
        "else, to ~/Desktop/count.txt.",
        [placed("list.txt", f"{HOME}/Documents/list.txt"), *_TERMINAL],
        printed(f"cat {_DESK}/count.txt | tr -d '[:space:]'", str(hits)),
        _in_terminal(f"grep -c {word} Documents/list.txt > Desktop/count.txt"),
        {
            "all lines": [shell(f"echo 20 > {_DESK}/count.txt")],
            "the lines": [shell(f"grep {word} {HOME}/Documents/list.txt > {_DESK}/count.txt")],
        },
        {"list.txt": text.encode()},
    )


def _newest(random: Random) -> Scenario:
    names = random.sample(_WORDS, 4)
    ages = " && ".join(f"touch -d '{d + 1} days ago' {n}.pdf" for d, n in enumerate(names))
    return Scenario(
        "Delete the oldest PDF file of ~/Downloads and keep all others.",
        [ran(f"cd {HOME}/Downloads && {ages}"), *_TERMINAL],
        printed(f"ls {HOME}/Downloads", "".join(f"{n}.pdf\n" for n in sorted(names[:-1]))),
        _in_terminal(f"rm Downloads/{names[-1]}.pdf"),
        {
            "the newest": [shell(f"rm {HOME}/Downloads/{names[0]}.pdf")],
            "two": [shell(f"rm {HOME}/Downloads/{names[-1]}.pdf {HOME}/Downloads/{names[-2]}.pdf")],
        },
    )


def _pack(random: Random) -> Scenario:
    names = sorted(random.sample(_WORDS, 3))
    made = " ".join(f"{n}.txt" for n in names)
    return Scenario(
        "Pack the three text files of ~/Documents, without folders in their names, into "
        "~/Desktop/texts.tar.gz.",
        [ran(f"cd {HOME}/Documents && touch {made}"), *_TERMINAL],
        printed(
            f"tar -tzf {_DESK}/texts.tar.gz | sed 's#^[.]/##' | sort", "".join(f"{n}.txt\n" for n in names)
        ),
        _in_terminal("cd Documents && tar -czf ../Desktop/texts.tar.gz *.txt"),
        {
            "with the folder": [shell(f"cd {HOME} && tar -czf {_DESK}/texts.tar.gz Documents/*.txt")],
            "not compressed": [shell(f"cd {HOME}/Documents && tar -cf {_DESK}/texts.tar.gz *.txt")],
        },
    )


def _write_note(random: Random) -> Scenario:
    words = random.sample(_WORDS, 3)
    text = "\n".join(words)
    path = f"{_DESK}/note.txt"
    return Scenario(
        f"In the open editor, add a last line with the word {words[2]} to note.txt, and save it.",
        [placed("note.txt", path), launched("mousepad", path), window("note.txt")],
        compared("compare_text_file", path, "gold.txt", ignore_blanks=True),
        [
            *(wait_for("note.txt"), pause(0.7), keys("Control+End")),
            *(typed(f"{words[2]}\n"), keys("Control+s"), pause(0.7)),
        ],
        {
            "not saved": [wait_for("note.txt"), keys("Control+End"), typed(f"{words[2]}\n")],
            "the first line": [lay("first.txt", path)],
        },
        {
            "note.txt": f"{words[0]}\n{words[1]}\n".encode(),
            "gold.txt": f"{text}\n".encode(),
            "first.txt": f"{words[2]}\n{words[0]}\n{words[1]}\n".encode(),
        },
    )


def _replace_word(random: Random) -> Scenario:
    old, new, filler = random.sample(_WORDS, 3)
    lines = [random.choice((old, filler)) for _ in range(12)] + [old, filler]
    path = f"{HOME}/Documents/poem.txt"
    before, after = "\n".join(lines) + "\n", "\n".join(new if w == old else w for w in lines) + "\n"
    return Scenario(
        f'Replace every "{old}" in the open file poem.txt by "{new}", and save it.',
        [placed("poem.txt", path), launched("mousepad", path), window("poem.txt")],
        compared("compare_text_file", path, "gold.txt", ignore_blanks=True),
        [
            *(wait_for("poem.txt"), pause(0.7), keys("Control+a"), typed(after)),
            *(keys("Control+s"), pause(0.7)),
        ],
        {
            "one left": [lay("one.txt", path)],
            "not saved": [wait_for("poem.txt"), keys("Control+a"), typed(after)],
        },
        {
            "poem.txt": before.encode(),
            "gold.txt": after.encode(),
            "one.txt": before.replace(old, new, before.count(old) - 1).encode(),
        },
    )


def _new_file(random: Random) -> Scenario:
    name, word = random.sample(_WORDS, 2)
    path = f"{HOME}/Documents/{name}.txt"
    return Scenario(
        f"Write the word {word} into a new text file and save it as {name}.txt in the folder Documents.",
        [ran(f"mkdir -p {HOME}/Documents"), launched("mousepad"), window("Mousepad")],
        printed(f"cat {path} | tr -d '[:space:]'", word),
        [
            *(wait_for("Mousepad"), pause(0.7), typed(word), keys("Control+s"), wait_for("Save")),
            # The first Enter takes the completed path, the second saves.
            *(pause(0.7), typed(path, submit=True), pause(0.7), keys("Enter"), pause(1.0)),
        ],
        {
            "on the desktop": [shell(f"echo {word} > {_DESK}/{name}.txt")],
            "another word": [shell(f"echo {name} > {path}")],
        },
    )


TEMPLATES = (
    Template("os-rename-folder", ("os", "terminal"), _rename, screen=True),
    Template("os-move-logs", ("os", "terminal"), _sort_by_kind, screen=True),
    Template("os-permissions", ("os", "terminal"), _permissions, screen=True),
    Template("os-count-lines", ("os", "terminal"), _count_lines, screen=True),
    Template("os-delete-oldest", ("os", "terminal"), _newest, screen=True),
    Template("os-pack-files", ("os", "terminal"), _pack, screen=True),
    Template("editor-add-line", ("editor",), _write_note, screen=True),
    Template("editor-replace-word", ("editor",), _replace_word, screen=True),
    Template("editor-new-file", ("editor",), _new_file, screen=True),
)
