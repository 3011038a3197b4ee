"""Flaws of OSWorld's task files, by what their evaluators read, expect and do. Pure.

A file is not run: a flaw says what its check would pay for, not that an agent did it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rewards.checks.getters import ON_HOST, configs
from rewards.flaws.flaw import Flaw
from rewards.tasksets.osworld import steps
from rewards.tasksets.osworld.schema import Check, Source, TaskFile

_PROGRAMS = frozenset({"vm_command_line", "vm_command_error", "vm_terminal_output", "cache_file"})
_PAGES = frozenset(
    {
        *("active_tab_html_parse", "active_tab_info", "active_tab_url_parse", "active_url_from_accessTree"),
        *("open_tabs_info", "url_dashPart", "url_path_parse", "macys_product_url_parse"),
        *("gotoRecreationPage_and_get_html_content", "info_from_website", "number_of_search_results"),
        *("page_info", "pdf_from_url", "googledrive_file"),
    }
)
_PRESSES = re.compile(r"pyautogui\.(hotkey|press|write|typewrite|click)")
_EXISTS = re.compile(r"^\s*(?:\[{1,2}|test)\s+-[def]\s|^\s*ls\b")
_OPERATORS = frozenset({"|", "||", "&&", ">", ">>", ";"})
_SHORT = 2  # characters that turn up in an answer or a screen by chance


def _claim_alone(file: TaskFile) -> bool:
    return file.infeasible


def _public_gold(file: TaskFile) -> bool:
    """A file that the result is compared with is downloaded from where the agent can get it, too."""
    return any(path.startswith("http") for one in file.sources for path in _cloud(one))


def _program_of_the_agent(file: TaskFile) -> bool:
    return any(one.type in _PROGRAMS for one in file.sources)


def _gold_on_device(file: TaskFile) -> bool:
    """Both sides of a comparison are read from the device; pages of the web have a flaw of their own."""
    beyond = ON_HOST | _PAGES
    return any(
        len(sides := _sides(check)) > 1 and not {one.type for one in sides} & beyond for check in file.checks
    )


def _nothing_of_the_agent(file: TaskFile) -> bool:
    """No side of a check is read from the device: its value is the same whatever the agent does."""
    return _pays_by(file, lambda check: all(one.type in ON_HOST for one in _sides(check)))


def _start_is_gold(file: TaskFile) -> bool:
    start = {
        (one.url, one.path) for step in file.config if isinstance(step, steps.Download) for one in step.files
    }

    def met(check: Check) -> bool:
        if not check.func.startswith(("compare_", "diff_")):
            return False  # others, such as "is it brighter", take the start to measure the change
        result, expected = _paths(check.result), list(_cloud(check.expected))
        pairs = set(zip(expected, result, strict=False))
        return bool(pairs) and len(expected) == len(result) and pairs <= start

    return _pays_by(file, met)


def _only_exists(file: TaskFile) -> bool:
    def looks(check: Check) -> bool:
        return check.result is not None and (
            check.result.type == "list_directory" or _EXISTS.match(_command(check.result)) is not None
        )

    return _pays_by(file, looks)


def _only_refusals(file: TaskFile) -> bool:
    def refuses(check: Check) -> bool:
        rules = _rules(check)
        forbids = rules.get("exclude") or rules.get("unexpect")
        return bool(forbids) and not (rules.get("include") or rules.get("expect"))

    return _pays_by(file, refuses)


def _short_needle(file: TaskFile) -> bool:
    return _pays_by(file, lambda check: any(len(one.strip()) <= _SHORT for one in _needles(check)))


def _in_instruction(file: TaskFile) -> bool:
    said = file.instruction.casefold()

    def told(check: Check) -> bool:
        needles = [one.strip().casefold() for one in _needles(check)]
        return bool(needles) and all(one in said for one in needles)

    return _pays_by(file, told)


def _pipe_in_arguments(file: TaskFile) -> bool:
    return any(
        isinstance(one.config, configs.Command)
        and not one.config.shell
        and isinstance(one.config.command, list)
        and bool(_OPERATORS & set(one.config.command))
        for one in file.sources
    )


def _live_web(file: TaskFile) -> bool:
    """A page or address is read, and not one of the browser itself or of the device."""

    def local(check: Check) -> bool:
        return str(_rules(check).get("url", "")).startswith(("chrome://", "file://"))

    return any(one.type in _PAGES and not local(check) for check in file.checks for one in _sides(check))


def _today(file: TaskFile) -> bool:
    return any(one.type == "rule_relativeTime" for one in file.sources)


def _presses_keys(file: TaskFile) -> bool:
    return any(
        isinstance(step, steps.Execute | steps.Launch) and _PRESSES.search(_joined(step.command)) is not None
        for step in file.postconfig
    )


def _fixed_sleep(file: TaskFile) -> bool:
    return any(isinstance(step, steps.Sleep) for step in file.postconfig)


FLAWS: Mapping[Flaw, Callable[[TaskFile], bool]] = {
    Flaw(
        "claim-alone",
        "it cannot be done, and an agent that says so at once, or always, earns the whole point",
        "OSWorld issue 177",
    ): _claim_alone,
    Flaw(
        "public-gold",
        "what the result is compared with lies at a public address: an agent with a network downloads it",
        "BenchJack, arXiv 2605.12673",
    ): _public_gold,
    Flaw(
        "program-of-the-agent",
        "the result is what a program prints on the agent's own machine, where the agent can replace it",
        "OSWorld issue 567; BenchJack (trust in untrusted output)",
    ): _program_of_the_agent,
    Flaw(
        "gold-on-device",
        "both sides of the comparison lie on the agent's machine, where it can change either",
        "BenchJack (no isolation)",
    ): _gold_on_device,
    Flaw(
        "nothing-of-the-agent",
        "a check compares the task's own files and rules, whatever the agent did",
        "BenchJack (logic gaps)",
    ): _nothing_of_the_agent,
    Flaw(
        "start-is-gold",
        "the set-up lays down the very file that is expected: doing nothing pays",
        "ABC checklist, arXiv 2507.02825 (an agent that does nothing)",
    ): _start_is_gold,
    Flaw(
        "only-exists",
        "the check looks at names alone: an empty file or folder of that name pays",
        "BenchJack (weak matching)",
    ): _only_exists,
    Flaw(
        "only-refusals",
        "the check says only what must not be there: output that is empty, or state that was deleted, pays",
        "BenchJack (logic gaps)",
    ): _only_refusals,
    Flaw(
        "short-needle",
        f"a text of at most {_SHORT} characters is looked for in a longer one, where it turns up by chance",
        "BenchJack (weak matching)",
    ): _short_needle,
    Flaw(
        "expected-in-instruction",
        "every text that is looked for stands in the instruction: to repeat it in the right place pays",
        "BenchJack (answers shipped)",
    ): _in_instruction,
    Flaw(
        "pipe-in-arguments",
        "a command is given as a list without a shell, so that its pipe is a word and not a pipe",
        "found by this command",
    ): _pipe_in_arguments,
    Flaw(
        "live-web",
        "the check reads a page, its address or an account of the live web, which change",
        "Epoch AI on OSWorld; ABC checklist (selectors that broke)",
    ): _live_web,
    Flaw(
        "depends-on-today",
        "what is expected is computed from today's date: a result cannot be scored again later",
        "found by this command",
    ): _today,
    Flaw(
        "presses-keys-after",
        "keys are pressed after the agent's end, in whatever has the keyboard: they save what it did not",
        "found by this command",
    ): _presses_keys,
    Flaw(
        "fixed-sleep",
        "the check waits a fixed time, and on a busy machine reads what is not there yet",
        "found by this command",
    ): _fixed_sleep,
}


def _pays_by(file: TaskFile, has: Callable[[Check], bool]) -> bool:
    """Whether a property of checks pays for the whole task: that of one in an "or", of all in an "and"."""
    if file.infeasible:
        return False  # its checks are not run
    held = [has(check) for check in file.checks]
    return any(held) if file.conjunction == "or" else all(held)


def _sides(check: Check) -> list[Source]:
    return [one for one in (check.result, check.expected) if one is not None]


def _rules(check: Check) -> Mapping[str, Any]:
    config = check.expected.config if check.expected is not None else None
    rules = config.rules if isinstance(config, configs.Rules) else None
    return rules if isinstance(rules, dict) else {}


def _needles(check: Check) -> list[str]:
    """The texts that a check looks for somewhere in its result."""
    rules = _rules(check)
    match check.func:
        case "check_include_exclude":
            found = rules.get("include")
        case "file_contains" | "is_extension_installed":
            found = rules.get("expected")
        case "compare_image_text":
            found = rules.get("text")
        case _:
            found = None
    return [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, str)]


def _cloud(source: Source | None) -> Iterator[str]:
    if source is not None and source.type == "cloud_file":
        yield from _paths(source)


def _paths(source: Source | None) -> list[str]:
    config = source.config if source is not None else None
    return [path for path, _ in config.pairs] if isinstance(config, configs.Files) else []


def _command(source: Source) -> str:
    return _joined(source.config.command) if isinstance(source.config, configs.Command) else ""


def _joined(command: str | list[str]) -> str:
    return command if isinstance(command, str) else " ".join(command)
