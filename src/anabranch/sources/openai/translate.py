"""Chat completion chunks become events. Pure.

An item is the ``data`` of one server-sent event, or the body of an answer that is no stream, as bytes, so that a
recorded stream can be translated again. Of the dialects of this protocol (``sources._dialect`` has more):

| the endpoint sends | what becomes of it |
|---|---|
| ``delta.content``, as text or as parts, and ``delta.refusal`` | one message; images are parts of it |
| ``reasoning_content`` or ``reasoning``, or thinking in parts of the content | reasoning, before the text beside it |
| fragments of tool calls, in any form | calls, each with its own arguments |
| ``function_call`` beside ``tool_calls`` | nothing: it repeats them; alone it is a call |
| other choices than the first, empty ones, nulls, comments, what follows ``[DONE]`` | nothing |
| usage, alone or not, once or growing | the last one is reported at the end |
| an error object, in a chunk or in a choice | ``RunFailed`` with the code that ``_failures`` finds |
| what is no JSON object | ``RunFailed`` ``model_error`` |

**Tools.** A call to a tool that the client offered is the client's: the run ends with it pending. Any other tool can
only be the endpoint's own. Text after such a call says that it was executed there: that text is a message of its own,
and the call returns a note that its result is unknown. An answer that ends with such a call fails (``model_error``),
or, when calls of the client's stand beside it, goes on with an error as its result.

**The end** is decided at ``[DONE]`` or the end of the stream, because usage, and even text, may follow the finish
reason. The finish reason is what makes an answer whole: with it a connection that breaks afterwards is no failure,
without it ``[DONE]`` is one (``model_truncated``). A limit or a content filter fails an answer of tool calls, and one
that has said nothing; a text that it cut is kept, with the reason in ``MessageFinished``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict

from ... import events as ev
from ...errors import SourceError, scrub
from .._foreign import amount, entry, label, listed, prose, thought
from ._calls import LEGACY, Call, Calls
from ._failures import explain
from ._wire import DONE, read

_CUT = frozenset({"length", "content_filter", "max_tokens", "model_length", "MAX_TOKENS", "SAFETY", "incomplete"})
_BROKEN = frozenset({"error", "abort", "insufficient_system_resource"})

_UNSHOWN = "The endpoint executed this tool and did not show its result."
_UNKNOWN = "Error: this tool was not offered, so nobody executed it."


class OpenAITranslator:
    """Translates the answer of ``model`` to one request that offered ``tools`` of the client, by name.

    None: nobody knows which, as for an answer that somebody captured; then every call is the client's.
    """

    def __init__(self, model: str = "", tools: Iterable[str] | None = ()) -> None:
        self._who, self._model = called(model), model
        self._calls = Calls(tools)
        self._turn = ""  # local id of the first message
        self._messages = 1  # how many messages were begun or are about to be
        self._open = False  # the last of them
        self._thoughts = 0  # how many reasonings were begun
        self._thinking = False  # in the last of them
        self._finish = ""
        self._usage: Any = None
        self._ended = False

    def feed(self, item: bytes) -> Iterable[ev.Event]:
        """The events of one item."""
        data = item.strip()
        if self._ended or not data:
            return ()
        if data == DONE:
            return self._end()
        chunk = read(data)
        if chunk is None:
            text = f"{self._who} sent something that is no JSON object."
            return self._failed(SourceError(text, code="model_error", retryable=True))
        if chunk.error or chunk.object == "error":
            return self._failed(explain(chunk.error or asdict(chunk), self._who))
        self._turn = self._turn or label(chunk.id) or "message"
        self._model = label(chunk.model) or self._model
        self._usage = chunk.usage or self._usage
        out: list[ev.Event] = []
        for choice in listed(chunk.choices):
            if isinstance(choice, dict) and choice.get("index") in (None, 0, "0"):
                if error := choice.get("error"):
                    return out + self._failed(explain(error, self._who))
                self._choice(choice, out)
        return out

    def close(self, error: BaseException | None) -> Iterable[ev.Event]:
        """The end of the stream. An answer that was finished when the connection broke is whole."""
        if self._ended:
            return ()
        if error is None or (self._finish and isinstance(error, SourceError)):
            return self._end()
        return self._spent()

    # --- what can come -----------------------------------------------------------------------------------------

    def _choice(self, choice: dict[str, Any], out: list[ev.Event]) -> None:
        delta, message = choice.get("delta"), choice.get("message")
        if isinstance(delta, dict):
            self._delta(delta, out)
        elif isinstance(message, dict) and not self._open and not self._calls:  # after a stream it only repeats
            calls = [call for call in listed(message.get("tool_calls")) if isinstance(call, dict)]
            self._delta({**message, "tool_calls": [{**call, "index": n} for n, call in enumerate(calls)]}, out)
        self._finish = label(choice.get("finish_reason") or None) or self._finish
        self._usage = choice.get("usage") or self._usage

    def _delta(self, delta: dict[str, Any], out: list[ev.Event]) -> None:
        thoughts, more = delta.get("reasoning_content"), delta.get("reasoning")
        if thoughts or more:
            self._think(prose(thoughts) or prose(more), out)
        content = delta.get("content")
        if isinstance(content, str):
            self._say(content, out)
        elif content:
            self._blocks(content, out)
        if refusal := delta.get("refusal"):
            self._say(prose(refusal), out)
        if images := delta.get("images"):
            self._blocks(images, out)
        for note in listed(delta.get("annotations")):
            if isinstance(note, dict):
                out.append(ev.Annotated(message_id=self._message(out), annotation=note))
        calls, legacy = delta.get("tool_calls"), delta.get(LEGACY)
        if calls or legacy:
            for piece in self._calls.pieces(listed(calls), legacy):
                self._stop_thinking(out)
                self._calls.take(piece, self._message_id, out)

    def _blocks(self, content: Any, out: list[ev.Event]) -> None:
        for block in listed(content):
            image = entry(block, "image_url")
            if url := image if isinstance(image, str) else label(entry(image, "url")):
                kind = url[5:].partition(";")[0] if url.startswith("data:") else "image/*"
                part = ev.Part(kind="file", url=url, mime_type=kind)
                out.append(ev.PartAdded(message_id=self._message(out), part=part))
            elif thoughts := thought(block):
                self._think(thoughts, out)
            else:
                self._say(prose(block), out)

    # --- text --------------------------------------------------------------------------------------------------

    def _say(self, text: str, out: list[ev.Event]) -> None:
        if text:
            out.append(ev.TextDelta(message_id=self._message(out), delta=text))

    def _message(self, out: list[ev.Event]) -> str:
        """The id of the message that content belongs to, which is open afterwards."""
        self._stop_thinking(out)
        if self._calls:
            self._go_on(out)
        if not self._open:
            self._open = True
            out.append(ev.MessageStarted(message_id=self._message_id))
        return self._message_id

    def _go_on(self, out: list[ev.Event]) -> None:
        """Content comes after calls: the endpoint has executed those that are not the client's."""
        self._calls.tell(out)
        if executed := self._calls.executed():
            self._close_message("narration", None, out)
            self._messages += 1
            for call in executed:
                call.give_back(_UNSHOWN, False, out)

    @property
    def _message_id(self) -> str:
        return self._turn if self._messages == 1 else f"{self._turn}#{self._messages}"

    def _close_message(self, phase: ev.Phase, finish: str | None, out: list[ev.Event]) -> None:
        if self._open:
            self._open = False
            out.append(ev.MessageFinished(message_id=self._message_id, finish_reason=finish, phase=phase))

    def _think(self, text: str, out: list[ev.Event]) -> None:
        if not text:
            return
        if not self._thinking:
            self._thinking = True
            self._thoughts += 1
            out.append(ev.ReasoningStarted(reasoning_id=f"reasoning {self._thoughts}"))
        out.append(ev.ReasoningDelta(reasoning_id=f"reasoning {self._thoughts}", delta=text))

    def _stop_thinking(self, out: list[ev.Event]) -> None:
        if self._thinking:
            self._thinking = False
            out.append(ev.ReasoningFinished(reasoning_id=f"reasoning {self._thoughts}"))

    # --- how it ends -------------------------------------------------------------------------------------------

    def _end(self) -> list[ev.Event]:
        out: list[ev.Event] = []
        self._stop_thinking(out)
        self._calls.tell(out)
        calls = self._calls.open
        if flaw := self._flaw(calls):
            return out + self._failed(flaw)
        self._ended = True
        self._close_message("narration" if calls else "answer", self._finish, out)
        for call in calls:
            if call.offered:
                out.append(ev.ToolCallFinished(call_id=call.id))
            else:
                call.give_back(_UNKNOWN, True, out)
        return [*out, *self._spent(), ev.RunFinished()]

    def _flaw(self, calls: list[Call]) -> SourceError | None:
        """Why the answer is not whole, or cannot be used."""
        finish, said = self._finish, self._open or bool(self._calls)
        code, text = "model_error", ""
        if not finish:
            code = "model_truncated"
            began = said or self._thoughts
            text = "'s stream ended without a finish reason" if began else "'s answer ended before it began"
        elif finish in _CUT and (calls or not said):
            code = "model_truncated"
            text = f"'s tool calls were cut off ({finish})" if calls else f" was stopped before it answered ({finish})"
        elif finish in _BROKEN:
            text = f" gave up ({finish})"
        elif finish in ("tool_calls", LEGACY) and not self._calls:
            text = " said that it calls a tool, and called none"
        elif not all(call.is_object for call in calls):
            text = " called a tool with arguments that are not a JSON object"
        elif calls and not any(call.offered for call in calls):
            text = f" called the tool {calls[0].name}, which nobody offered"
        return SourceError(scrub(f"{self._who}{text}."), code=code, retryable=True) if text else None

    def _failed(self, error: SourceError) -> list[ev.Event]:
        self._ended = True
        return [*self._spent(), ev.RunFailed(code=error.code, message=str(error), retryable=error.retryable)]

    def _spent(self) -> list[ev.Event]:
        given = self._usage
        if not isinstance(given, dict):
            return []
        sent, made = amount(given.get("prompt_tokens")), amount(given.get("completion_tokens"))
        usage = ev.Usage(
            model=self._model,
            input=sent,
            output=max(made, amount(given.get("total_tokens")) - sent),  # some count reasoning in the total only
            reasoning=amount(entry(given.get("completion_tokens_details"), "reasoning_tokens")),
            cached=amount(entry(given.get("prompt_tokens_details"), "cached_tokens")),
        )
        return [ev.UsageReported(usage=usage)]


def called(model: str) -> str:
    """What errors call the model."""
    return f"The model {model}" if model else "The model"
