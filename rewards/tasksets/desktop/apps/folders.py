"""Tasks on files and folders, in the terminal."""

from collections.abc import Iterable
from random import Random
from typing import Any

from rewards.tasksets.desktop.scenario import (
    HOME,
    TERMINAL,
    Scenario,
    Template,
    in_terminal,
    printed,
    ran,
    shell,
)
from rewards.tasksets.desktop.words import WORDS

_DESK = f"{HOME}/Desktop"


def _left(folders: str, files: Iterable[str], shown: str = "", text: str = "") -> dict[str, Any]:
    """An evaluator: these folders of the home hold exactly these files, and `shown` says exactly `text`."""
    listing = "".join(f"{file}\n" for file in sorted(files))
    show = f" && cat {shown}" if shown else ""
    return printed(f"cd {HOME} && find {folders} -type f | LC_ALL=C sort{show}", listing + text)


def _rename(random: Random) -> Scenario:
    old, new, other = random.sample(WORDS, 3)
    return Scenario(
        f'There is a folder "{old}" on the desktop (~/Desktop). Rename it to "{new}".',
        [ran(f"mkdir -p {_DESK}/{old} {_DESK}/{other} && echo {old} > {_DESK}/{old}/note.txt"), *TERMINAL],
        printed(f"cd {_DESK} && find . | sort", f".\n./{new}\n./{new}/note.txt\n./{other}\n")
        if new < other
        else printed(f"cd {_DESK} && find . | sort", f".\n./{other}\n./{new}\n./{new}/note.txt\n"),
        in_terminal(f"mv Desktop/{old} Desktop/{new}"),
        {
            "a copy": [shell(f"cp -r {_DESK}/{old} {_DESK}/{new}")],
            "the other folder": [shell(f"mv {_DESK}/{other} {_DESK}/{new}")],
            "an empty one": [shell(f"rm -r {_DESK}/{old}; mkdir {_DESK}/{new}")],
        },
    )


def _sort_by_kind(random: Random) -> Scenario:
    names = random.sample(WORDS, 5)
    logs, texts = sorted(names[:3]), sorted(names[3:])
    made = " ".join([*(f"{n}.log" for n in logs), *(f"{n}.txt" for n in texts)])
    want = [".", *(f"./{n}.txt" for n in texts), "./logs", *(f"./logs/{n}.log" for n in logs)]
    return Scenario(
        "Move every .log file of ~/Documents into a new folder ~/Documents/logs, and nothing else.",
        [ran(f"cd {HOME}/Documents && touch {made}"), *TERMINAL],
        printed(f"cd {HOME}/Documents && find . | LC_ALL=C sort", "".join(f"{n}\n" for n in sorted(want))),
        in_terminal("cd Documents && mkdir logs && mv *.log logs"),
        {
            "all files": [shell(f"cd {HOME}/Documents && mkdir logs && mv *.* logs")],
            "one left": [
                shell(f"cd {HOME}/Documents && mkdir logs && mv *.log logs && mv logs/{logs[0]}.log .")
            ],
            "copied": [shell(f"cd {HOME}/Documents && mkdir logs && cp *.log logs")],
        },
    )


def _permissions(random: Random) -> Scenario:
    name = random.choice(WORDS)
    return Scenario(
        f"Make the script ~/Documents/{name}.sh executable for its owner alone; nobody else may read, write "
        "or run it.",
        [ran(f"cd {HOME}/Documents && echo 'echo {name}' > {name}.sh && chmod 644 {name}.sh"), *TERMINAL],
        printed(f"stat -c %A {HOME}/Documents/{name}.sh", "-rwx------\n"),
        in_terminal(f"chmod 700 Documents/{name}.sh"),
        {
            "for everybody": [shell(f"chmod 755 {HOME}/Documents/{name}.sh")],
            "not executable": [shell(f"chmod 600 {HOME}/Documents/{name}.sh")],
        },
    )


def _newest(random: Random) -> Scenario:
    names = random.sample(WORDS, 4)
    ages = " && ".join(f"touch -d '{d + 1} days ago' {n}.pdf" for d, n in enumerate(names))
    return Scenario(
        "Delete the oldest PDF file of ~/Downloads and keep all others.",
        [ran(f"cd {HOME}/Downloads && {ages}"), *TERMINAL],
        printed(f"ls {HOME}/Downloads", "".join(f"{n}.pdf\n" for n in sorted(names[:-1]))),
        in_terminal(f"rm Downloads/{names[-1]}.pdf"),
        {
            "the newest": [shell(f"rm {HOME}/Downloads/{names[0]}.pdf")],
            "two": [shell(f"rm {HOME}/Downloads/{names[-1]}.pdf {HOME}/Downloads/{names[-2]}.pdf")],
        },
    )


def _pack(random: Random) -> Scenario:
    names = sorted(random.sample(WORDS, 3))
    made = " ".join(f"{n}.txt" for n in names)
    return Scenario(
        "Pack the three text files of ~/Documents, without folders in their names, into "
        "~/Desktop/texts.tar.gz.",
        [ran(f"cd {HOME}/Documents && touch {made}"), *TERMINAL],
        printed(
            f"tar -tzf {_DESK}/texts.tar.gz | sed 's#^[.]/##' | sort", "".join(f"{n}.txt\n" for n in names)
        ),
        in_terminal("cd Documents && tar -czf ../Desktop/texts.tar.gz *.txt"),
        {
            "with the folder": [shell(f"cd {HOME} && tar -czf {_DESK}/texts.tar.gz Documents/*.txt")],
            "not compressed": [shell(f"cd {HOME}/Documents && tar -cf {_DESK}/texts.tar.gz *.txt")],
        },
    )


def _largest(random: Random) -> Scenario:
    names = random.sample(WORDS, 4)
    sizes = random.sample(range(1000, 90_000), 4)
    places = [f"{folder}{name}.bin" for folder, name in zip(("", "", "old/", "old/"), names, strict=True)]
    made = " && ".join(f"head -c {size} /dev/zero > {p}" for size, p in zip(sizes, places, strict=True))
    *_, second, largest = (place for _, place in sorted(zip(sizes, places, strict=True)))
    kept = [f"Downloads/{place}" for place in places if place != largest]
    return Scenario(
        "Move the largest file of ~/Downloads, its folders included, to the desktop.",
        [ran(f"mkdir -p {HOME}/Downloads/old && cd {HOME}/Downloads && {made}"), *TERMINAL],
        _left("Downloads Desktop", [*kept, f"Desktop/{largest.removeprefix('old/')}"]),
        in_terminal(
            "mv \"$(find Downloads -type f -printf '%s %p\\n' | sort -n | tail -n 1 | cut -d' ' -f2)\" "
            "Desktop"
        ),
        {
            "the second": [shell(f"mv {HOME}/Downloads/{second} {_DESK}")],
            "a copy": [shell(f"cp {HOME}/Downloads/{largest} {_DESK}")],
            "the whole folder": [shell(f"mv {HOME}/Downloads/old {_DESK}")],
        },
    )


def _copies(random: Random) -> Scenario:
    names = random.sample(WORDS, 7)
    kept, others, copies = names[:3], names[3:5], names[5:]
    folder = f"{HOME}/Documents"
    made = [f"echo {name} > originals/{name}.txt" for name in kept]
    made += [f"echo {name} > {name}.txt" for name in others]
    made += [f"cp originals/{one}.txt {copy}.txt" for one, copy in zip(kept, copies, strict=False)]
    return Scenario(
        "In ~/Documents, delete every file whose content is that of a file in ~/Documents/originals; names "
        "do not matter. The folder originals stays as it is.",
        [ran(f"mkdir -p {folder}/originals && cd {folder} && {' && '.join(made)}"), *TERMINAL],
        _left(
            "Documents",
            [*(f"Documents/originals/{n}.txt" for n in kept), *(f"Documents/{n}.txt" for n in others)],
        ),
        in_terminal(
            "cd Documents; for f in *.txt; do for o in originals/*; do cmp -s $f $o && rm $f; done; done"
        ),
        {
            "one left": [shell(f"rm {folder}/{copies[0]}.txt")],
            "the originals": [shell(f"cd {folder} && rm originals/{kept[0]}.txt originals/{kept[1]}.txt")],
            "all": [shell(f"rm {folder}/*.txt")],
        },
    )


def _endings(random: Random) -> Scenario:
    names = random.sample(WORDS, 4)
    places = [f"{folder}{name}" for folder, name in zip(("", "", "trip/", "trip/old/"), names, strict=True)]
    pictures = f"{HOME}/Pictures"
    touched = " ".join(f"{place}.JPG" for place in places)
    return Scenario(
        "All pictures in ~/Pictures and its folders end in .JPG; let them end in .jpg. Their names stay, and "
        "each stays in its folder.",
        [
            ran(f"mkdir -p {pictures}/trip/old && cd {pictures} && touch {touched} trip/JPG.txt"),
            *TERMINAL,
        ],
        _left("Pictures", [*(f"Pictures/{place}.jpg" for place in places), "Pictures/trip/JPG.txt"]),
        in_terminal("find Pictures -name '*.JPG' -exec sh -c 'mv \"$1\" \"${1%.JPG}.jpg\"' sh {} \\;"),
        {
            "without folders": [shell(f'cd {pictures} && for f in *.JPG; do mv $f "${{f%.JPG}}.jpg"; done')],
            "copies": [
                shell(
                    f"cd {pictures} && for f in {touched}; do cp $f $(dirname $f)/$(basename $f JPG)jpg; done"
                )
            ],
            "all in one folder": [
                shell(f"cd {pictures} && for f in {touched}; do mv $f $(basename $f JPG)jpg; done")
            ],
        },
    )


def _one_of_archive(random: Random) -> Scenario:
    names = sorted(random.sample(WORDS, 4))
    wanted = random.choice(names)
    made = " && ".join(f"echo {name} > plans/{name}.txt" for name in names)
    archive = f"{HOME}/Downloads/backup.tar.gz"
    return Scenario(
        f"Take the file plans/{wanted}.txt out of ~/Downloads/backup.tar.gz and put it right on the desktop, "
        "without a folder. Unpack nothing else, and keep the archive.",
        [ran(f"cd /tmp && mkdir plans && {made} && tar -czf {archive} plans && rm -r plans"), *TERMINAL],
        _left(
            "Desktop Downloads",
            [f"Desktop/{wanted}.txt", "Downloads/backup.tar.gz"],
            f"Desktop/{wanted}.txt",
            f"{wanted}\n",
        ),
        in_terminal(f"tar -xzf Downloads/backup.tar.gz -C Desktop --strip-components=1 plans/{wanted}.txt"),
        {
            "in its folder": [shell(f"tar -xzf {archive} -C {_DESK} plans/{wanted}.txt")],
            "all of them": [shell(f"tar -xzf {archive} -C {_DESK} --strip-components=1")],
            "another file's text": [shell(f"echo another > {_DESK}/{wanted}.txt")],
        },
    )


def _trash(random: Random) -> Scenario:
    names = sorted(random.sample(WORDS, 3))
    wanted, other = random.sample(names, 2)
    trash, plans = f"{HOME}/.local/share/Trash", f"{HOME}/Documents/plans"
    made = " && ".join(
        f"echo {name} > files/{name}.txt && printf '[Trash Info]\\nPath={plans}/{name}.txt\\n"
        f"DeletionDate=2024-05-0{day}T10:00:00\\n' > info/{name}.txt.trashinfo"
        for day, name in enumerate(names, 1)
    )
    kept = [f".local/share/Trash/files/{name}.txt" for name in names if name != wanted]
    return Scenario(
        f"I deleted {wanted}.txt by mistake; it is in the trash. Put it back where it was: the .trashinfo "
        "file in ~/.local/share/Trash/info says where. Leave the others in the trash.",
        [ran(f"mkdir -p {trash}/files {trash}/info {plans} && cd {trash} && {made}"), *TERMINAL],
        _left(
            "Documents Desktop .local/share/Trash/files",
            [*kept, f"Documents/plans/{wanted}.txt"],
            f"Documents/plans/{wanted}.txt",
            f"{wanted}\n",
        ),
        in_terminal(
            f"cd .local/share/Trash && mv files/{wanted}.txt {plans} && rm info/{wanted}.txt.trashinfo"
        ),
        {
            "another": [shell(f"mv {trash}/files/{other}.txt {plans}")],
            "on the desktop": [shell(f"mv {trash}/files/{wanted}.txt {_DESK}")],
            "a copy": [shell(f"cp {trash}/files/{wanted}.txt {plans}")],
        },
    )


def _clean_copy(random: Random) -> Scenario:
    names = random.sample(WORDS, 4)
    texts, drafts = names[:2], names[2:]
    folder = f"{HOME}/Documents/report"
    made = " ".join([*(f"{name}.txt" for name in texts), *(f"parts/{name}.tmp" for name in drafts)])
    kept = [f"Documents/report/{place}" for place in made.split()]
    return Scenario(
        "Put a copy of the folder ~/Documents/report on the desktop, as report-final, and delete all .tmp "
        "files from the copy. The folder itself stays as it is.",
        [ran(f"mkdir -p {folder}/parts && cd {folder} && touch {made} parts/last.txt"), *TERMINAL],
        _left(
            "Documents Desktop",
            [
                *(*kept, "Documents/report/parts/last.txt", "Desktop/report-final/parts/last.txt"),
                *(f"Desktop/report-final/{name}.txt" for name in texts),
            ],
        ),
        in_terminal("cp -r Documents/report Desktop/report-final && rm Desktop/report-final/parts/*.tmp"),
        {
            "drafts in it": [shell(f"cp -r {folder} {_DESK}/report-final")],
            "out of the folder itself": [
                shell(f"rm {folder}/parts/*.tmp; cp -r {folder} {_DESK}/report-final")
            ],
            "moved": [shell(f"mv {folder} {_DESK}/report-final && rm {_DESK}/report-final/parts/*.tmp")],
        },
    )


_A = ("os",)
TEMPLATES = (
    Template("os-rename-folder", _A, _rename, screen=True),
    Template("os-move-logs", _A, _sort_by_kind, screen=True),
    Template("os-permissions", _A, _permissions, screen=True),
    Template("os-delete-oldest", _A, _newest, screen=True),
    Template("os-pack-files", _A, _pack, screen=True),
    Template("os-move-largest", _A, _largest, screen=True),
    Template("os-delete-copies", _A, _copies, screen=True),
    Template("os-lower-endings", _A, _endings, screen=True),
    Template("os-unpack-one", _A, _one_of_archive, screen=True),
    Template("os-out-of-trash", _A, _trash, screen=True),
    Template("os-clean-copy", _A, _clean_copy, screen=True),
)
