"""The evaluation of the assistant: questions, right answers, and scores by intent."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

QUESTIONS_FILE = Path(__file__).parent / "questions.json"


@dataclass(frozen=True)
class Question:
    """A question in English (``en``) or Nigerian Pidgin (``pcm``), with the demands on a right answer.

    :ivar calls: tools, all of which the answer must use; without any, the answer must use none
    :ivar contains: texts that the answer or the tools' results must contain
    :ivar proposes: the path of the request that the answer must propose
    """

    intent: str
    language: str
    text: str
    calls: Sequence[str]
    contains: Sequence[str] = ()
    proposes: str | None = None


@dataclass
class Reply:
    """The answer to a question: text, called tools, the tools' results, and proposed paths."""

    text: str = ""
    calls: list[str] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    proposals: list[str] = field(default_factory=list)
    error: str | None = None


def read_questions() -> list[Question]:
    """Read the questions from their file."""
    return [Question(**entry) for entry in json.loads(QUESTIONS_FILE.read_text("utf-8"))]


def collect_reply(events: Iterable[tuple[str, dict[str, Any]]]) -> Reply:
    """Collect the answer from the events of a stream."""
    reply = Reply()
    for name, data in events:
        if name == "token":
            reply.text += data["text"]
        elif name == "tool_call":
            reply.calls.append(data["name"])
        elif name == "tool_result":
            reply.results.append(data["result"])
        elif name == "proposal":
            reply.proposals.append(data["request"]["path"])
        elif name == "error":
            reply.error = data["code"]
    return reply


def find_fault(question: Question, reply: Reply) -> str | None:
    """Return the reason why an answer is wrong; none for a right answer."""
    if reply.error is not None:
        return f"error {reply.error}"
    missing = [name for name in question.calls if name not in reply.calls]
    if missing or (reply.calls and not question.calls):
        return f"called {', '.join(reply.calls) or 'nothing'}"
    if not reply.text.strip():
        return "no text"
    said = f"{reply.text} {json.dumps(reply.results, ensure_ascii=False)}".lower()
    absent = [text for text in question.contains if text.lower() not in said]
    if absent:
        return f"{', '.join(absent)} is missing"
    if question.proposes is not None and question.proposes not in reply.proposals:
        return f"proposed {', '.join(reply.proposals) or 'nothing'}"
    return None


@dataclass(frozen=True)
class Evaluation:
    """The wrong answers with their faults, and the scores by intent."""

    faults: Sequence[tuple[Question, str]]
    scores: Sequence[dict[str, Any]]

    @property
    def right(self) -> int:
        """The number of right answers."""
        return sum(score["right"] for score in self.scores)

    @property
    def questions(self) -> int:
        """The number of questions."""
        return sum(score["questions"] for score in self.scores)


def evaluate(questions: Sequence[Question], ask: Callable[[Question], Reply]) -> Evaluation:
    """Ask all questions, and score the answers.

    :param ask: asks the assistant a question in a new thread
    """
    faults = [
        (question, fault)
        for question in questions
        if (fault := find_fault(question, ask(question))) is not None
    ]
    asked = Counter(question.intent for question in questions)
    wrong = Counter(question.intent for question, _ in faults)
    scores = [
        {"intent": intent, "questions": count, "right": count - wrong[intent]}
        for intent, count in asked.items()
    ]
    return Evaluation(faults, scores)
