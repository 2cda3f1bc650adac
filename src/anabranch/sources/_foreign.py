"""Values of users' graphs and of careless endpoints, made into what events can hold. Pure, and nothing here raises.

A tool may return a dict with tuples for keys, a model say ``finish_reason: 5``, a state have a channel ``todos`` that
is no plan: all legal, and none of it a reason to end a run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from ..encodable import whole

_DEPTH = 100  # levels of a value; what is deeper is cut off, as is what holds itself
_INT_BITS = 14_000  # a longer one has more digits than Python converts
_LABEL = 200  # characters
_MANY = 2**53  # from here on no count is exact everywhere


def placeholder(value: Any) -> str:
    """What stands for a value that is not JSON: its type only, for a repr may hold secrets and addresses."""
    return f"<{type(value).__name__}>"


def as_it_is(value: Any) -> Any:
    """A leaf for the grammar to make encodable."""
    return value


def plain(value: Any, leaf: Callable[[Any], Any] = placeholder, above: tuple[int, ...] = ()) -> Any:
    """``value`` as finite JSON: whole characters, finite numbers, keys of text, no cycles; ``leaf`` makes the rest."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return whole(str.__str__(value))
    if isinstance(value, int):
        value = int.__index__(value)
        return value if value.bit_length() <= _INT_BITS else placeholder(value)
    if isinstance(value, float):
        value = float.__float__(value)
        return value if math.isfinite(value) else None
    if not isinstance(value, dict | list | tuple):
        return leaf(value)
    if id(value) in above or len(above) == _DEPTH:
        return placeholder(value)
    above = (*above, id(value))
    if isinstance(value, dict):
        return {_key(key, leaf): plain(item, leaf, above) for key, item in dict.items(value)}
    items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
    return [plain(item, leaf, above) for item in items]


def _key(key: Any, leaf: Callable[[Any], Any]) -> Any:
    if isinstance(key, str):
        return whole(str.__str__(key))
    return json.dumps(plain(key)) if key is None or isinstance(key, int | float) else leaf(key)


def json_text(value: Any) -> str:
    """Any value as JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, default=placeholder, allow_nan=False)
    except Exception:  # keys, cycles, numbers, and whatever a foreign container raises when it is read
        return json.dumps(plain(value), ensure_ascii=False)


def label(value: Any = None) -> str:
    """A name, an id or a reason as text; ``""`` for none."""
    if isinstance(value, str):
        return str.__str__(value)
    return "" if value is None else json_text(value)[:_LABEL]


def amount(value: Any) -> int:
    """A count of tokens; 0 for what cannot be one."""
    if not isinstance(value, int | float) or not 0 <= value < _MANY:
        return 0
    return int(value)


def entry(value: Any, key: str) -> Any:
    """What a dict has under ``key``; None when there is none, or no dict."""
    return value.get(key) if isinstance(value, dict) else None


def attribute(value: Any, name: str) -> Any:
    """An attribute of a foreign object, or None."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def listed(value: Any) -> list[Any]:
    """The items of a list or tuple; anything else is the only item, and None is no item."""
    if isinstance(value, list | tuple):
        return list(value)
    return [] if value is None else [value]


def called(value: Any) -> list[dict[str, Any]]:
    """The tool calls in a list of them, with ids and names of text."""
    calls = [call for call in value if isinstance(call, dict)] if isinstance(value, list | tuple) else []
    return [{"id": label(c.get("id")), "name": label(c.get("name")), "args": c.get("args")} for c in calls]


def prose(value: Any, depth: int = 8) -> str:
    """The text in a content or a block of one, in every provider's form; ``""`` when it holds none."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, list | tuple) and depth:
        return "".join(prose(item, depth - 1) for item in value)
    if isinstance(value, dict) and depth:
        said = [value.get(key) for key in ("text", "refusal")]
        return "".join(prose(text.get("value", text) if isinstance(text, dict) else text, depth - 1) for text in said)
    return ""


def thought(block: Any) -> str:
    """The reasoning in a content block: Anthropic's, Mistral's, LangChain's, OpenAI's summaries, Bedrock's."""
    kind = entry(block, "type")
    if not isinstance(kind, str) or kind not in ("thinking", "reasoning", "reasoning_content"):
        return ""
    return prose(block.get(kind)) or prose(block.get("summary"))
