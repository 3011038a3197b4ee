"""Flaws of WebArena's task files, by its three evaluators, and of WebArena-Verified's. Pure."""

from collections.abc import Callable, Mapping

from rewards.checks import web
from rewards.flaws.flaw import Flaw
from rewards.tasksets.webarena.files import RESPONSE, TaskFile, VerifiedFile
from rewards.tasksets.webarena.task import NOT_ACHIEVABLE

_SHORT = 2  # characters that stand in an answer by chance


def _claim_alone(file: TaskFile) -> bool:
    return _references(file).get("fuzzy_match") == NOT_ACHIEVABLE


def _listing_pays(file: TaskFile) -> bool:
    """All that is asked of the answer is that it holds texts; it may hold any others."""
    return file.eval.eval_types == ["string_match"] and set(_references(file)) == {"must_include"}


def _short_needle(file: TaskFile) -> bool:
    needles = _texts(_references(file).get("must_include"))
    return "string_match" in file.eval.eval_types and any(len(one.strip()) <= _SHORT for one in needles)


def _in_intent(file: TaskFile) -> bool:
    """The question itself, given as the answer, pays."""
    references = _references(file)
    if file.eval.eval_types != ["string_match"] or not references or "fuzzy_match" in references:
        return False
    exact, included = references.get("exact_match"), references.get("must_include")
    return (exact is None or web.exact(str(exact), file.intent) == 1) and (
        not isinstance(included, list) or web.includes_all(list(map(str, included)), file.intent) == 1
    )


def _nothing_expected(file: TaskFile) -> bool:
    """An evaluator has nothing to compare with: no reference, or one that everything holds."""
    checks = file.eval
    empty = {
        "string_match": not [one for value in _references(file).values() for one in _texts(value) if one],
        "url_match": not (checks.reference_url or "").strip(),
        "program_html": not checks.program_html
        or any(
            not [one for value in target.required_contents.values() for one in _texts(value) if one]
            for target in checks.program_html
        ),
    }
    return any(empty.get(kind, False) for kind in checks.eval_types)  # others are unsupported


def _starts_there(file: TaskFile) -> bool:
    wanted = (file.eval.reference_url or "").split(web.OR)
    start = file.start_url.split(" |AND| ")[-1]
    return file.eval.eval_types == ["url_match"] and any(
        one.strip() and one.strip().rstrip("/") in start for one in wanted
    )


def _address_run(file: TaskFile) -> bool:
    return any(
        text.startswith("func:") and "__last_url__" in text
        for target in file.eval.program_html or []
        for text in (target.url, target.locator)
    )


def _needs_a_model(file: TaskFile) -> bool:
    references = _references(file)
    return "fuzzy_match" in references and not _claim_alone(file)


FLAWS: Mapping[Flaw, Callable[[TaskFile], bool]] = {
    Flaw(
        "claim-alone",
        "it cannot be done, and an agent that answers N/A at once, or always, earns the whole point",
        "WebArena; ABC checklist, arXiv 2507.02825",
    ): _claim_alone,
    Flaw(
        "listing-pays",
        "the answer has to hold texts and may hold any others: one that lists every candidate pays",
        "BenchJack, arXiv 2605.12673 (weak matching); WebArena-Verified",
    ): _listing_pays,
    Flaw(
        "short-needle",
        f"a text of at most {_SHORT} characters is looked for in the answer, where it stands by chance",
        "WebArena-Verified (typed answers instead of substrings)",
    ): _short_needle,
    Flaw(
        "expected-in-intent",
        "all that the answer must be or hold stands in the question: to repeat the question pays",
        "BenchJack (answers shipped)",
    ): _in_intent,
    Flaw(
        "nothing-expected",
        "an evaluator has no reference, or an empty one, which the wrong page and no answer meet",
        "ABC checklist (an agent that does nothing)",
    ): _nothing_expected,
    Flaw(
        "starts-there",
        "the address that is expected is part of the start's: doing nothing pays",
        "ABC checklist (an agent that does nothing)",
    ): _starts_there,
    Flaw(
        "address-is-code",
        "WebArena's evaluator puts the last page's address into Python and evaluates it",
        "BenchJack (code run in the grader)",
    ): _address_run,
    Flaw(
        "needs-a-model",
        "a model compares answer and reference: an uncalibrated verdict, which the answer can talk to",
        "ABC checklist (unvalidated judge); BenchJack",
    ): _needs_a_model,
}


def _says_no(file: VerifiedFile) -> bool:
    """An answer whose status is some error earns the point, if it is the right one of five."""
    return _only_answers(file) and any(one.response.status.upper() != "SUCCESS" for one in file.eval)


def _word_alone(file: VerifiedFile) -> bool:
    """The agent's own word that it changed or showed something is all that is looked at."""
    return _only_answers(file) and not any(
        one.response.status.upper() != "SUCCESS" or one.response.task_type.upper() == "RETRIEVE"
        for one in file.eval
    )


VERIFIED_FLAWS: Mapping[Flaw, Callable[[VerifiedFile], bool]] = {
    Flaw(
        "error-alone",
        "it cannot be done, and answering with the right one of five errors earns the whole point",
        "WebArena-Verified (status codes)",
    ): _says_no,
    Flaw(
        "word-alone",
        "the agent's own word that it changed or showed something is all that is looked at",
        "BenchJack (trust in untrusted output)",
    ): _word_alone,
}


def _only_answers(file: VerifiedFile) -> bool:
    return bool(file.eval) and all(one.evaluator == RESPONSE for one in file.eval)


def _references(file: TaskFile) -> Mapping[str, object]:
    return file.eval.reference_answers or {}


def _texts(value: object) -> list[str]:
    """The texts of a reference, which is one or a list; " |OR| " parts alternatives."""
    return [
        one
        for text in (value if isinstance(value, list) else [value])
        if isinstance(text, str)
        for one in text.split(web.OR)
    ]
