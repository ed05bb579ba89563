"""Summaries of long threads, written in the background for later answers."""

import json
from datetime import datetime
from uuid import UUID

import structlog
from sqlalchemy import update
from sqlalchemy.orm import Session

from marketplace.assistant import prompts
from marketplace.assistant.completions import complete
from marketplace.assistant.models import AssistantThread
from marketplace.assistant.opt_outs import is_opted_out
from marketplace.assistant.privacy import protect
from marketplace.assistant.threads import list_history
from marketplace.assistant.usage import TokenPrices, record_usage
from marketplace.infra.db import Database
from marketplace.infra.outbox import LastPhase
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.language_model import LanguageModel

_log = structlog.get_logger(__name__)
# The latest messages stay as they are.
KEPT_MESSAGES = 8
_MAX_TOKENS = 400
_MAX_SUMMARY_LENGTH = 3_000


def summarize_thread(
    database: Database, model: LanguageModel, *, thread_id: UUID, prices: TokenPrices, now: datetime
) -> LastPhase | None:
    """Summarise the messages before the latest ones. The model is called outside of transactions.

    A failure of the provider is not repeated, because the next answer of the thread makes the summary due again.

    :return: the last phase, which stores the summary; none without a summary
    """
    with database.reading() as session:
        thread = session.get(AssistantThread, thread_id)
        if thread is None or is_opted_out(session, user_id=thread.user_id):
            return None
        history = list_history(
            session, thread_id=thread_id, after=thread.summarized_count, limit=thread.message_count
        )[:-KEPT_MESSAGES]
        user_id, earlier, counted = thread.user_id, thread.thread_summary, thread.summarized_count
    if not history:
        return None
    data = {
        "summary of earlier messages": earlier,
        "messages": [{"from": message.role, "text": message.body} for message in history],
    }
    try:
        written = complete(
            model,
            [
                {"role": "system", "content": prompts.read_prompt(prompts.THREAD_SUMMARY)},
                {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
            ],
            max_tokens=_MAX_TOKENS,
        )
    except (ProviderUnavailableError, ProviderRefusedError):
        _log.warning("thread not summarised", thread_id=thread_id)
        return None
    summary = protect(written.text)[:_MAX_SUMMARY_LENGTH]

    def store(session: Session, *, now: datetime) -> None:
        record_usage(
            session,
            user_id=user_id,
            purpose="thread_summary",
            tokens=written.tokens,
            prices=prices,
            now=now,
        )
        if summary:
            # Another worker may have summarised the thread, or the person may have deleted the thread.
            session.execute(
                update(AssistantThread)
                .where(AssistantThread.id == thread_id, AssistantThread.summarized_count == counted)
                .values(thread_summary=summary, summarized_count=history[-1].number)
            )

    return store
