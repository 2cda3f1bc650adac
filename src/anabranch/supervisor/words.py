r"""Text as words, in any script. Pure.

Python's ``\w`` knows no combining marks and ``\b`` finds no end of a Latin name that Japanese goes on from, so the
runs are spelled out here. Text is folded word by word (NFKC, case), so that offsets stay those of what was written.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

LONG = 8_000
"""Characters outside code blocks. Of a longer text only the first and the last half of this many are read."""

_DIGITS = "0-9\uff10-\uff19"
_LATIN = (
    "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02bb\u1e00-\u1eff"
    "\u1d00-\u1dbf\u2c60-\u2c7f\ua722-\ua7ff\uab30-\uab6f\u212a\u212b\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a"
)
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HANGUL = "\uac00-\ud7a3"
# Hiragana, Han, Thai and Lao, Burmese, Khmer: nothing in the text says where their words end.
_SPACELESS = (
    "\u3005-\u3007\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
# Cyrillic, Hebrew and Arabic marks; the Indic blocks whole, as they mix signs with letters.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0dff"
)
# No width and no meaning here: soft hyphen, joiners, directions, variation selectors. U+200B is a space, so not here.
_HIDDEN = "\u00ad\u061c\u180b-\u180e\u200c-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
_OTHER = rf"[^\W_{_DIGITS}{_LATIN}{_KATAKANA}{_HANGUL}{_SPACELESS}]"

_WORD = re.compile(
    rf"(?P<latin>[{_LATIN}{_DIGITS}][{_LATIN}{_DIGITS}{_MARKS}{_HIDDEN}]*)"
    rf"|(?P<katakana>[{_KATAKANA}][{_KATAKANA}{_HIDDEN}\u3099\u309a]*)"
    rf"|(?P<hangul>[{_HANGUL}])"
    rf"|(?P<spaceless>[{_SPACELESS}])"
    rf"|(?P<other>(?:{_OTHER}|[{_MARKS}])(?:{_OTHER}|[{_DIGITS}{_MARKS}{_HIDDEN}])*)"
)
_UNSEEN = re.compile(f"[{_HIDDEN}]+")
_FENCE = re.compile("```|~~~")
# Each alternative stops at the next sign of its own kind, so that no stretch is searched twice.
_QUOTE = re.compile(
    r"`+[^`\n]+`+"
    r'|(?<![\w"])"[^"\n]+"(?!\w)'
    r"|(?<!\w)'(?=\S)(?:[^'\n]|(?<=\w)'(?=\w))+'(?!\w)"
    r"|[„“”][^„“”\n]+[“”]|[«»][^«»\n]+[«»]|[‹›][^‹›\n]+[‹›]|(?<!\w)‘[^‘’\n]+’(?!\w)"
    r"|「[^「」\n]+」|『[^『』\n]+』"
    r"|^[ \t]*>.*$",
    re.M,
)
_GAP = " \ufffc "  # where a quotation was: no space alone, so that nothing stands first by its loss


class Word(NamedTuple):
    """A word, folded, with its place in the text. Of scripts without spaces and of Hangul, one character."""

    text: str
    start: int
    end: int
    script: str


def fold(text: str) -> str:
    """``text`` as it is compared: compatible forms, case and invisible characters make no difference."""
    if text.isascii():
        return text.lower()
    seen = _UNSEEN.sub("", text)
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())


def visible(text: str) -> str:
    """``text`` without the characters that have no width."""
    return text if text.isascii() else _UNSEEN.sub("", text)


def split(text: str) -> list[Word]:
    """The words of ``text``, in order."""
    return [Word(fold(found[0]), *found.span(), found.lastgroup or "") for found in _WORD.finditer(text)]


def is_letter(char: str) -> bool:
    """Whether a word can go on with ``char``: a letter, digit, mark; of a script that has spaces between words."""
    return bool(_WORD.fullmatch(char)) and not re.match(f"[{_SPACELESS}{_KATAKANA}]", char)


def is_mark(char: str) -> bool:
    """Whether ``char`` belongs to the character before it."""
    return unicodedata.category(char)[0] == "M" and char not in "\ufe0e\ufe0f"


def unquoted(text: str) -> tuple[str, str, bool]:
    """What the writer says, what is only quoted (code, quotation marks, lines after ``>``), and whether it was cut.

    Offsets before the first quotation are those of ``text``. Costs next to nothing beyond ``LONG`` characters.
    """
    pieces = _FENCE.split(text)
    plain, quoted = _GAP.join(pieces[::2]), pieces[1::2]
    if cut := len(plain) > LONG:
        head, tail = plain[: LONG // 2], plain[-LONG // 2 :]
        # Whole words only: what is cut in two may look like a name.
        plain = head[: _last_space(head)] + "\n\ufffc\n" + tail.partition(" ")[2]
    quoted += _QUOTE.findall(plain)
    return _QUOTE.sub(_GAP, plain), "\n".join(quoted)[:LONG], cut


def _last_space(text: str) -> int:
    return max(text.rfind(" "), text.rfind("\n"), 0)
