"""The entry point of ``python -m bench.assistant_eval``."""

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click
import requests

from bench.assistant_eval import Question, Reply, collect_reply, evaluate, read_questions
from marketplace.assistant import prompts
from marketplace.assistant.staff import record_evaluation
from marketplace.infra.settings import load_settings
from marketplace.services import Services

_SECONDS = 90.0
_TOO_MANY = 429


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Ask a running service's assistant all questions, and print the scores by intent.

    Start the service with a real model first: ASSISTANT_URL=... ASSISTANT_MODEL=... make run

    \b
    Example:
      python -m bench.assistant_eval --token "$(marketplace token buyer)"
    """,
)
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="Address of the service.")
@click.option("--token", required=True, help="Access token of the demo's buyer.")
@click.option("--record", is_flag=True, help="Store the scores in the database of the settings.")
@click.option(
    "--model", default=lambda: os.environ.get("ASSISTANT_MODEL", "stand-in"), help="Name to record."
)
def main(*, url: str, token: str, record: bool, model: str) -> None:
    """Evaluate the assistant."""
    questions = read_questions()
    done = 0

    def ask(question: Question) -> Reply:
        nonlocal done
        done += 1
        click.echo(f"\r{done}/{len(questions)} {question.text[:60]:60}", err=True, nl=False)
        return ask_service(url, token, question.text)

    evaluation = evaluate(questions, ask)
    click.echo("", err=True)
    for score in evaluation.scores:
        click.echo(f"{score['intent']:<14} {score['right']:>3} of {score['questions']:>3}")
    click.echo(f"{'all':<14} {evaluation.right:>3} of {evaluation.questions:>3}")
    for question, fault in evaluation.faults:
        click.echo(f"wrong: {question.text} ({fault})")
    if record:
        services = Services.from_settings(load_settings(), application_name="evaluation")
        services.database.in_transaction(
            record_evaluation,
            model=model,
            prompt_version=prompts.CONVERSATION,
            scores=evaluation.scores,
            now=datetime.now(UTC),
        )
        services.database.close()


def ask_service(url: str, token: str, text: str) -> Reply:
    """Ask a question in a new thread. The client waits when the rate limit is reached.

    :raises click.ClickException: the service refused the question
    """
    while True:
        response = requests.post(
            f"{url}/api/assistant/stream",
            json={"messages": [{"role": "user", "content": text}]},
            headers={"Authorization": f"Bearer {token}"},
            stream=True,
            timeout=_SECONDS,
        )
        if response.status_code != _TOO_MANY:
            break
        time.sleep(int(response.headers.get("Retry-After", "1")))
    with response:
        if not response.ok:
            raise click.ClickException(f"{response.status_code}: {response.text[:300]}")
        return collect_reply(_events(response))


def _events(response: requests.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in response.iter_lines(decode_unicode=True):
        key, _, value = line.partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, json.loads(value)


if __name__ == "__main__":
    main()
