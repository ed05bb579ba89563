"""Language of docstrings, comments, texts and test names: few pronouns, no riddles, long texts in text modules.

The limits are those of code bases that read well: 1.1 to 1.7 % pronouns, 0.02 to 0.1 % of the word "what".
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[2]
FOLDERS = ("marketplace", "blueprints", "tasks", "commands")
PRONOUNS = re.compile(
    "its?|they|them|theirs?|he|she|him|hers?|his|ones?|who|whom|whose|what|whoever|whatever|somebody|nobody|everybody"
)
# The subject of a sentence that starts with such a word is elsewhere.
RIDDLES = re.compile("What|Whose|Who|How|It|One|Those|Some|There|Whoever|Where")
MOST_PRONOUNS = 0.02
MOST_WHATS = 0.001
# Sentences that only repeat the parameter's name.
IDLE_PARAMETERS = re.compile(
    r":param (now: when\b|now: (the )?(current )?time\.?$|(session|services|database|clock): (the|an?) \w+\.?$)"
)
# Two sentences: the end of the first, and a capital letter at the start of the next.
TWO_SENTENCES = re.compile(r"[\w)`}][.!?] [A-Z`{]")


@dataclass(frozen=True)
class Prose:
    """A docstring or a comment, and the place of the first line."""

    place: str
    text: str
    is_docstring: bool

    @property
    def words(self) -> list[str]:
        return re.findall(r"[A-Za-z']+", self.text)


def list_modules(*folders: str) -> list[Path]:
    """List the Python modules of folders of the project."""
    return [path for folder in folders for path in sorted((PROJECT / folder).rglob("*.py"))]


def read_prose(path: Path) -> Iterator[Prose]:
    """Read all docstrings and comments of a module."""
    source = path.read_text(encoding="utf-8")
    name = path.relative_to(PROJECT).as_posix()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield Prose(f"{name}:{getattr(node, 'lineno', 1)}", docstring, is_docstring=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Prose(f"{name}:{token.start[0]}", token.string.lstrip("# "), is_docstring=False)


@cache
def all_prose() -> tuple[Prose, ...]:
    """Read the docstrings and comments of the measured folders."""
    return tuple(prose for path in list_modules(*FOLDERS) for prose in read_prose(path))


def share_of(words: re.Pattern[str]) -> tuple[float, list[str]]:
    """Return the share of words among all words of the prose, and the places with the most matches."""
    total = found = 0
    places: list[tuple[int, str]] = []
    for prose in all_prose():
        count = sum(bool(words.fullmatch(word.lower())) for word in prose.words)
        total += len(prose.words)
        found += count
        if count:
            places.append((count, prose.place))
    assert total > 10_000
    return found / total, [f"{place} ({count})" for count, place in sorted(places, reverse=True)[:40]]


def test_pronouns_are_rare() -> None:
    share, places = share_of(PRONOUNS)
    assert share <= MOST_PRONOUNS, "Repeat the noun:\n" + "\n".join(places)


def test_the_word_what_is_rare() -> None:
    share, places = share_of(re.compile("what"))
    assert share <= MOST_WHATS, "Name the thing:\n" + "\n".join(places)


def test_docstrings_do_not_start_with_a_pronoun_or_question_word() -> None:
    riddles = [
        f"{prose.place}: {prose.text.splitlines()[0]}"
        for prose in all_prose()
        if prose.is_docstring and prose.words and RIDDLES.fullmatch(prose.words[0])
    ]
    assert not riddles, "Start with the verb or the noun:\n" + "\n".join(riddles)


def test_self_explanatory_parameters_have_no_description() -> None:
    idle = [
        f"{prose.place}: {line.strip()}"
        for prose in all_prose()
        for line in prose.text.splitlines()
        if IDLE_PARAMETERS.search(line)
    ]
    assert not idle, "Remove:\n" + "\n".join(idle)


def literal_of(node: ast.AST) -> str:
    """Return the text of a literal, with `{}` for the values of an f-string, or empty."""
    match node:
        case ast.Constant(value=str() as value):
            return value
        case ast.JoinedStr(values=values):
            return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in values)
        case _:
            return ""


def list_long_texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """List the literals below a node that hold two sentences and are neither docstrings nor SQL."""
    for child in ast.iter_child_nodes(node):
        text = literal_of(child)
        if text:
            is_docstring = isinstance(node, ast.Expr)
            if not is_docstring and TWO_SENTENCES.search(text) and "SELECT" not in text:
                yield child.lineno, text
        else:
            yield from list_long_texts(child)


# Long literals that only engineers and operators read.
LONG_TEXTS_ELSEWHERE = {
    "marketplace/infra/settings.py": "descriptions of settings, printed by `marketplace config`",
}


def test_domain_texts_of_two_sentences_are_in_texts_modules() -> None:
    scattered = [
        f"{name}:{line}: {text}"
        for path in list_modules("marketplace")
        if path.name != "texts.py"
        and (name := path.relative_to(PROJECT).as_posix()) not in LONG_TEXTS_ELSEWHERE
        for line, text in list_long_texts(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not scattered, "Move to the area's texts.py:\n" + "\n".join(scattered)


def test_error_texts_of_two_sentences_are_in_texts_modules() -> None:
    scattered = [
        f"{path.relative_to(PROJECT)}:{line}: {text}"
        for path in list_modules("blueprints")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise)
        for line, text in list_long_texts(node)
    ]
    assert not scattered, "Move to the area's texts.py:\n" + "\n".join(scattered)


def test_test_names_have_few_pronouns() -> None:
    names = [
        f"{path.relative_to(PROJECT)}::{node.name}"
        for path in list_modules("tests")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    riddles = [name for name in names if any(map(PRONOUNS.fullmatch, name.rpartition("::")[2].split("_")))]
    # A number ("one_officer") and a possessive beside a noun are correct.
    assert len(riddles) <= MOST_PRONOUNS * len(names), "Name the thing:\n" + "\n".join(riddles)
