"""The stand-in's understanding: common wishes of shoppers in English and Pidgin, by words, and answers from results."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.providers.ai.context import Call

INTRODUCTION = "I am the sandbox's stand-in for a language model."
_UNKNOWN = (
    "I can search products, compare them, and look at your favourites, orders, stores, pickup hubs, policies and"
    " tickets. What do you need?"
)
_GREETING = re.compile(r"^(hi|hello|hey|good (morning|afternoon|evening)|how far|wetin dey)\b", re.IGNORECASE)
_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_PRICE = re.compile(
    r"(?:under|below|less than|no pass|at most)\s*₦?\s*([0-9][0-9,]*)\s*(k\b)?", re.IGNORECASE
)
# Words around the thing that a shopper looks for.
_FILLERS = re.compile(
    r"\b(please|abeg|i|want|wan|need|dey|find|search|show|me|buy|for|a|an|the|some|any|you|get|una|looking|look|fit|"
    r"cheap|good|under|below|less than|no pass|at most|naira|how much|be|is|na|do|have|sell|dem|to|my|of)\b",
    re.IGNORECASE,
)


Items = Sequence[dict[str, Any]]


def _nothing(_text: str) -> list[Call]:
    return []


@dataclass(frozen=True)
class _Rule:
    """A wish: words that show it, the tool that serves it, and the arguments from the text and from found items.

    If the arguments are missing, the calls of ``lookup`` find the items.
    """

    words: str
    tool: str
    arguments: Callable[[str, Items], dict[str, Any] | None] = lambda _text, _items: {}
    lookup: Callable[[str], list[Call]] = _nothing


def _product_query(text: str) -> dict[str, Any] | None:
    plain = _PRICE.sub(" ", text)
    query = " ".join(_FILLERS.sub(" ", re.sub(r"[^\w\s-]", " ", plain)).split())
    if not query:
        return None
    price = _PRICE.search(text)
    if price is None:
        return {"query": query}
    naira = int(price[1].replace(",", "")) * (1000 if price[2] else 1)
    return {"query": query, "maxPriceMinor": naira * 100}


def _search(text: str) -> list[Call]:
    """Search the products of a text. ``X and Y`` and ``X or Y`` are two searches at once."""
    queries = [
        _product_query(part) for part in re.split(r"\b(?:and|or|with|versus|vs)\b", text, flags=re.IGNORECASE)
    ]
    return [Call("search_products", query) for query in queries if query is not None]


def _orders(_text: str) -> list[Call]:
    return [Call("list_my_orders", {})]


def _find_id(text: str, items: Items) -> str | None:
    """Return the id in the text, or of the item with a number of the text, or of the first item."""
    found = _IDS.search(text)
    if found:
        return found[0]
    named = [item for item in items if item.get("number") and str(item["number"]).lower() in text.lower()]
    return next((str(item["id"]) for item in (*named, *items) if item.get("id")), None)


def _with_id(name: str, **more: Any) -> Callable[[str, Items], dict[str, Any] | None]:
    def find(text: str, items: Items) -> dict[str, Any] | None:
        found = _find_id(text, items)
        return {name: found, **more} if found else None

    return find


def _compared(text: str, items: Items) -> dict[str, Any] | None:
    ids = _IDS.findall(text) or [str(item["id"]) for item in items if item.get("id")]
    distinct = list(dict.fromkeys(ids))[:4]
    return {"productIds": distinct} if len(distinct) > 1 else None


def _store_id(text: str, items: Items) -> dict[str, Any] | None:
    stores = [item["store"] for item in items if isinstance(item.get("store"), dict)]
    found = _find_id(text, stores)
    return {"vendorId": found} if found else None


def _dispute(text: str, items: Items) -> dict[str, Any] | None:
    found = _find_id(text, items)
    if not found:
        return None
    reason = "damaged" if re.search(r"damag|spoil|broke", text, re.IGNORECASE) else "not_received"
    return {"orderId": found, "reason": reason, "description": text, "desiredOutcome": "refund"}


def _ticket(text: str, _items: Items) -> dict[str, Any]:
    return {"subject": " ".join(text.split()[:8])[:140], "message": text, "category": "other"}


# The first rule whose words match, and whose arguments or lookup are possible, wins.
_RULES = (
    _Rule(
        r"(add|put) .*(cart|basket)", "propose_add_to_cart", _with_id("productId", quantity=1),
        lambda text: _search(re.sub(r"\b(add|put|in|into|my|cart|basket)\b", " ", text, flags=re.IGNORECASE)),
    ),
    _Rule(r"check ?out|place (my|the|an) order|order (everything|my cart)|pay for my cart", "propose_checkout"),
    _Rule(r"cancel .*order|cancel am|cancel (it|my)", "propose_cancel_order", _with_id("orderId"), _orders),
    _Rule(
        r"open .*dispute|dispute (my|the|this|order)|(e|it) (don )?(spoil|damage)|arrived damaged|never (arrived|came)",
        "propose_dispute", _dispute, _orders,
    ),
    _Rule(r"open .*ticket|talk to (support|a person|human)|make i talk to person", "propose_ticket", _ticket),
    _Rule(
        r"compare|which (one )?(be |is )?(the )?better|difference between", "compare_products", _compared,
        lambda text: _search(
            re.sub(r"\b(compare|which|one|better|difference|between|is|be)\b", " ", text, flags=re.IGNORECASE)
        ),
    ),
    _Rule(
        r"(where|wetin happen|status of).*(money|refund|payment)|my money", "get_order_money", _with_id("orderId"),
        _orders,
    ),
    _Rule(r"favou?rites?|wish ?list|saved (items|things|products)|things i like", "list_favorites"),
    _Rule(r"\btickets?\b|my complaint", "list_my_tickets"),
    _Rule(
        r"return policy|refund|dispute|escrow|polic(y|ies)|rules?|safe|wahala|scam|delivery pin|payouts?",
        "read_policy",
        lambda text, _items: {"topic": text[:200]},
    ),
    _Rule(r"\bhubs?\b|pick ?up|where i (fit|go) collect", "list_hubs"),
    _Rule(r"\bmy orders?\b|my (package|parcel|goods)|where .*my|wetin i (buy|order)|i don order", "list_my_orders"),
    _Rule(r"\bstore\b|\bseller\b|\bvendor\b|who dey sell", "get_store", _store_id, lambda text: _search(
        re.sub(r"\b(store|seller|vendor|who|dey|sell|sells|about|trusted|tell)\b", " ", text, flags=re.IGNORECASE)
    )),
    _Rule(r"[0-9a-f]{8}-", "get_product", _with_id("productId")),
    _Rule(
        r"find|search|show|buy|want|wan|need|looking|cheap|how much|sell|get|have|price", "search_products",
        lambda text, _items: _product_query(text),
    ),
)  # fmt: skip


def choose_calls(
    text: str, *, tools: Sequence[str], called: Sequence[str], results: Sequence[str]
) -> list[Call]:
    """Return the tools that serve a shopper's text next, among the offered ones; none to answer.

    :param called: tools that were called for this text
    :param results: their results, which are JSON
    """
    if _GREETING.match(text) and len(text.split()) <= 4:
        return []
    items = [item for result in results for item in _items_of(result) if isinstance(item, dict)]
    for rule in _RULES:
        if rule.tool not in tools or not re.search(rule.words, text, re.IGNORECASE):
            continue
        if rule.tool in called:
            return []
        arguments = rule.arguments(text, items)
        if arguments is not None:
            return [Call(rule.tool, arguments)]
        calls = [] if called else rule.lookup(text)
        if calls or called:
            return calls
    return []


def _items_of(result: str) -> list[Any]:
    content = _parsed(result)
    items = content.get("items", []) if isinstance(content, dict) else []
    return items if isinstance(items, list) else []


def answer_text(text: str, results: Sequence[str]) -> str:
    """Answer a text from the results of tools, which are JSON."""
    if not results:
        return f"{INTRODUCTION} {_UNKNOWN}"
    return " ".join([INTRODUCTION, *(_describe(result) for result in results)])


def written_text(instructions: str, text: str) -> str | None:
    """Write a title or a reply of support, if the instructions ask for one; none otherwise."""
    if "title of 3 to 5 words" in instructions:
        return _title(text)
    if "reply of campus marketplace support" in instructions:
        return _reply(text)
    if instructions.startswith("Summarise this conversation"):
        return _summary(text)
    return None


def _title(text: str) -> str:
    messages = _parsed(text)
    first = next((str(one.get("text")) for one in messages if isinstance(one, dict)), text)
    words = re.findall(r"[\w'-]+", _FILLERS.sub(" ", first)) or ["shopping"]
    return " ".join([*words, "on", "the", "marketplace"][: max(3, min(len(words), 5))]).capitalize()


def _summary(text: str) -> str:
    data = _parsed(text)
    messages = data.get("messages", []) if isinstance(data, dict) else []
    wishes = [
        str(one.get("text"))[:100] for one in messages if isinstance(one, dict) and one.get("from") == "user"
    ]
    earlier = data.get("summary of earlier messages") if isinstance(data, dict) else None
    return " ".join([str(earlier or "").strip(), "The shopper wrote:", "; ".join(wishes)]).strip()[:1500]


def _reply(text: str) -> str:
    data = _parsed(text)
    ticket = data.get("ticket", {}) if isinstance(data, dict) else {}
    policies = data.get("policies", []) if isinstance(data, dict) else []
    order = data.get("order") if isinstance(data, dict) else None
    parts = [f"Thank you for your message about {str(ticket.get('subject', 'your request'))[:80]}."]
    if order:
        parts.append(f"Order {order.get('number')} has the status {order.get('status')}.")
    parts += [str(policy.get("text", ""))[:400] for policy in policies[:1]]
    return " ".join([*parts, "We look into it.", f"({INTRODUCTION})"])


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def _describe(result: str) -> str:
    try:
        content = json.loads(result)
    except ValueError:
        return "The tool gave no readable result."
    if isinstance(content, dict) and "error" in content:
        return f"That did not work: {content['error']}"
    items = content.get("items", content) if isinstance(content, dict) else content
    if isinstance(items, list):
        if not items:
            return "I found nothing that matches."
        return "I found: " + "; ".join(_line(item) for item in items[:5]) + "."
    return f"Here is what I know: {_line(items)}."


def _line(item: Any) -> str:
    """Describe a result in a few words. Only known fields are repeated, never instructions in a text."""
    if not isinstance(item, dict):
        return str(item)[:80]
    names = ("title", "name", "number", "subject", "topic")
    title = next((str(item[name]) for name in names if item.get(name)), "an entry")
    details = [str(item[name]) for name in ("price", "status", "answer", "summary") if item.get(name)]
    return " - ".join([title[:80], *(detail[:300] for detail in details)])
