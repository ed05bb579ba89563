"""Commit subjects since the introduction of the rule read `area: imperative summary`, in at most 72 characters."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
# The last commit before the rule.
BASE = "bbe2b0f5cb80cd6c4d72480ad07275d25e9af8c0"
LONGEST_SUBJECT = 72
SUBJECT = re.compile(r"[a-z][a-z0-9 ,._/-]*: (?P<verb>[a-z][a-z-]*) \S.*[^.\s]")
# Endings of past tense, gerund and third person, and the imperatives that share them.
NOT_IMPERATIVE = re.compile(r".*(ed|ing|[^s]s)")
IMPERATIVES = frozenset({"bring", "embed", "feed", "focus", "need", "seed", "speed", "string"})


def find_fault(subject: str) -> str | None:
    """Return why a commit's subject breaks the rule, or None."""
    if len(subject) > LONGEST_SUBJECT:
        return f"has {len(subject)} characters, at most {LONGEST_SUBJECT} are allowed"
    match = SUBJECT.fullmatch(subject)
    if match is None:
        return "must read `area: imperative summary`, in lower case and without a full stop"
    if match["verb"] not in IMPERATIVES and NOT_IMPERATIVE.fullmatch(match["verb"]):
        return f"must start with a verb in the imperative mood, not with `{match['verb']}`"
    return None


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in the project."""
    return subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False)


def test_subjects_of_commits_follow_the_rule() -> None:
    if shutil.which("git") is None or git("rev-parse", "--is-inside-work-tree").returncode:
        pytest.skip("not a git checkout")
    # A shallow clone may lack the base commit, and then all known commits are checked.
    known = git("cat-file", "-e", f"{BASE}^{{commit}}").returncode == 0
    log = git("log", "--no-merges", "--format=%h %s", f"{BASE}..HEAD" if known else "HEAD")
    assert log.returncode == 0, log.stderr
    faults = [
        f"{commit} {fault}: {subject}"
        for commit, _, subject in (line.partition(" ") for line in log.stdout.splitlines())
        if (fault := find_fault(subject))
    ]
    assert not faults, "Reword with `git rebase -i`:\n" + "\n".join(faults)


@pytest.mark.parametrize(
    "subject",
    [
        "reconciliation: keep resolved differences resolved",
        "payouts/batches: reject a batch whose fingerprint changed",
        "ci: focus the browser tests on the payment page",
    ],
)
def test_subject_in_the_required_form_is_accepted(subject: str) -> None:
    assert find_fault(subject) is None


@pytest.mark.parametrize(
    "subject",
    [
        "Have what a reconciliation suggests mend what it found",
        "refunds: Reject a second refund",
        "refunds: reject a second refund.",
        "refunds: rejected a second refund",
        "refunds: rejects a second refund",
        "refunds: rejecting a second refund",
        "refunds: fix",
        "refunds: reject a second refund of a charge that the buyer's bank returned",
    ],
)
def test_subject_in_another_form_is_refused(subject: str) -> None:
    assert find_fault(subject) is not None
