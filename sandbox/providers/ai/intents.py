"""The stand-in's understanding: common wishes of shoppers in English and Pidgin, by words, and answers from results."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Call:
    """A tool that the stand-in wants to call, with its arguments."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class _Rule:
    """A wish: words that show it, the tool that serves it, and the arguments from the text."""

    words: str
    tool: str
    arguments: Callable[[str], dict[str, Any] | None] = lambda _text: {}


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


def _first_id(name: str) -> Callable[[str], dict[str, Any] | None]:
    def find(text: str) -> dict[str, Any] | None:
        found = _IDS.search(text)
        return {name: found[0]} if found else None

    return find


def _ids(text: str) -> dict[str, Any] | None:
    found = _IDS.findall(text)
    return {"productIds": found} if len(found) > 1 else None


def _cart_item(text: str) -> dict[str, Any] | None:
    found = _IDS.search(text)
    return {"productId": found[0], "quantity": 1} if found else None


# The first rule whose words and arguments match wins.
_RULES = (
    _Rule(r"add .*(cart|basket)|put .* cart", "add_to_cart", _cart_item),
    _Rule(r"cancel", "cancel_order", _first_id("orderId")),
    _Rule(r"compare|which (one )?better|difference", "compare_products", _ids),
    _Rule(r"(where|wetin happen).*(money|refund|payment)|my money", "get_order_money", _first_id("orderId")),
    _Rule(r"favou?rites?|wish ?list|saved", "list_favorites"),
    _Rule(r"\b(my )?orders?\b|my (package|parcel|goods)|where .*my", "list_my_orders"),
    _Rule(r"\b(my )?tickets?\b|my complaint", "list_my_tickets"),
    _Rule(r"\bhubs?\b|pick ?up|where i fit collect", "list_hubs"),
    _Rule(r"return|refund|dispute|escrow|policy|policies|rules?|safe", "read_policy", lambda text: {"topic": text}),
    _Rule(r"\bstore\b|\bseller\b|\bvendor\b|\bshop of\b", "get_store", _first_id("vendorId")),
    _Rule(r".", "get_product", _first_id("productId")),
    _Rule(
        r"find|search|show|buy|want|wan|need|looking|cheap|how much|sell|get|have|price", "search_products",
        _product_query,
    ),
)  # fmt: skip


def choose_calls(text: str, *, tools: Sequence[str]) -> list[Call]:
    """Return the tools that serve a shopper's text, among the offered ones."""
    if _GREETING.match(text) and len(text.split()) <= 4:
        return []
    for rule in _RULES:
        if rule.tool in tools and re.search(rule.words, text, re.IGNORECASE):
            arguments = rule.arguments(text)
            if arguments is not None:
                return [Call(rule.tool, arguments)]
    return []


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
    return None


def _title(text: str) -> str:
    messages = _parsed(text)
    first = next((str(one.get("text")) for one in messages if isinstance(one, dict)), text)
    words = re.findall(r"[\w'-]+", _FILLERS.sub(" ", first)) or ["shopping"]
    return " ".join([*words, "on", "the", "marketplace"][: max(3, min(len(words), 5))]).capitalize()


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
