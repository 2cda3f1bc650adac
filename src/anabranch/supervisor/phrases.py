"""The words that routing goes by besides names, by language. Pure.

All languages are searched at once, since a text does not say which it is in. That a word means something else in
another language costs a turn of the supervisor and nothing more; only ``AND`` and ``FOLLOWS`` let a text past it, so
those have no such words (Dutch `en` is Spanish for "in", Polish `i` is English `I`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .words import Word, split


class Phrases:
    """A set of phrases, found as whole words (in scripts without spaces: as characters in a row)."""

    def __init__(self, *lists: str) -> None:
        self._by_first: dict[str, list[tuple[str, ...]]] = {}
        for phrase in (phrase for listed in lists for phrase in listed.split(",") if phrase.strip()):
            parts = tuple(word.text for word in split(phrase))
            self._by_first.setdefault(parts[0], []).append(parts)
        for phrases in self._by_first.values():
            phrases.sort(key=len, reverse=True)

    def at(self, words: Sequence[Word], index: int) -> int:
        """How many words the longest phrase has that begins at ``index``; 0 where none does."""
        for parts in self._by_first.get(words[index].text, ()):
            if all(
                index + n < len(words) and words[index + n].text == part for n, part in enumerate(parts[1:], start=1)
            ):
                return len(parts)
        return 0

    def within(self, words: Sequence[Word], first: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
        """Where phrases are: the index of the first word and that after the last, from ``first`` to before ``end``."""
        index, end = first, len(words) if end is None else end
        while index < end:
            count = self.at(words, index)
            if count and index + count <= end:
                yield index, index + count
            index += count or 1

    def holds(self, words: Sequence[Word]) -> bool:
        """Whether ``words`` are, together, one of the phrases."""
        return bool(words) and self.at(words, 0) == len(words)


# One answer needs another: comparisons, conditions, sequences, loops, analyses, and writing what comes from elsewhere.
DEPENDS = Phrases(
    "compare, compares, comparing, comparison, versus, vs, difference, differences, differ, differs, diff, contrast",
    "correlate, correlates, correlation, cross check, cross reference, reconcile",
    "if, unless, otherwise, else, whenever, in case, provided that, until, as soon as, once",
    "then, afterwards, after that, before that, subsequently, followed by, finally",
    "based on, depending on, depends on, depend on, dependent on, according to, given the",
    "for each, for every, for all, for any, each of, one by one",
    "analyze, analyzes, analyzing, analyse, analyses, analysing, analysis, investigate, diagnose, troubleshoot",
    "root cause",
    "create, creates, creating, update, updating, open a, open an, open one, file a, file an, raise a, raise an",
    "log a",
    "post, send, notify, email, write, copy, forward, export, import, migrate, transfer, escalate, attach, add",
    "assign",
    # German
    "vergleiche, vergleichen, vergleich, vergleicht, unterschied, unterschiede, unterscheiden, gegenüberstellen",
    "wenn, falls, sofern, ob, sonst, andernfalls, dann, danach, anschließend, daraufhin, sobald, nachdem",
    "basierend auf, abhängig von, je nach, anhand, aufgrund, für jede, für jeden, für jedes, für alle",
    "analysiere, analysieren, analyse, untersuche, untersuchen, erstelle, erstellen, anlegen, lege, aktualisiere",
    "aktualisieren, sende, senden, schicke, schick, schreibe, schreib, benachrichtige, füge",
    # Spanish
    "compara, comparar, compárame, comparación, diferencia, diferencias, si, cuando, luego, después, entonces, según",
    "basado en, basándose en, dependiendo de, depende de, en función de, para cada, por cada, para todos, para todas",
    "analiza, analizar, investiga, crea, crear, créame, actualiza, actualizar, envía, enviar, notifica, escribe",
    # French
    "comparez, comparer, comparaison, différence, différences, sinon, puis, ensuite, après, alors, quand, lorsque",
    "dès que, selon, en fonction de, basé sur, à partir de, pour chaque, pour tous, pour toutes, analyser, analysez",
    "crée, créer, créez, mets à jour, mettre à jour, mettez à jour, envoie, envoyer, envoyez, notifie, écris",
    # Italian, Portuguese, Dutch
    "confronta, confrontare, confronto, paragona, differenza, differenze, se, poi, quindi, dopo, altrimenti",
    "in base a",
    "a seconda di, per ogni, per ciascun, per ciascuna, analizza, analizzare, creare, aggiorna, aggiornare, invia",
    "comparação, diferença, diferenças, caso, depois, então, senão, com base em, dependendo do, conforme, analise",
    "analisar, crie, criar, atualize, atualizar, envie, enviar",
    "vergelijk, vergelijken, verschil, verschillen, als, indien, anders, dan, daarna, vervolgens, op basis van",
    "afhankelijk van, voor elke, voor elk, voor ieder, analyseer, maak, aanmaken, bijwerken, stuur",
    # Polish, Russian, Turkish
    "porównaj, porównać, różnica, różnice, jeśli, jeżeli, potem, następnie, na podstawie, w zależności od",
    "dla każdego, dla każdej, przeanalizuj, utwórz, stwórz, zaktualizuj, wyślij",
    "сравни, сравните, сравнить, сравнение, разница, если, иначе, затем, потом, после, на основе, исходя из",
    "в зависимости от, для каждого, для каждой, проанализируй, создай, создайте, создать, обнови, обновить, отправь",
    "karşılaştır, kıyasla, fark, farkı, eğer, ise, sonra, ardından, göre, her biri için, analiz, oluştur",
    "güncelle, gönder",
    # Arabic, Hebrew, Hindi, Vietnamese, Thai
    "قارن, مقارنة, الفرق, إذا, لو, ثم, بعد ذلك, بناء على, بناءً على, حسب, لكل, حلل, أنشئ, حدث, أرسل",
    "השווה, תשווה, השוואה, הבדל, אם, אז, לאחר מכן, אחר כך, בהתאם, על סמך, לכל, נתח, צור, עדכן, שלח",
    "तुलना, अंतर, अगर, यदि, फिर, उसके बाद, के आधार पर, प्रत्येक, हर, विश्लेषण, बनाओ, बनाएं, अपडेट, भेजो",
    "so sánh, nếu, sau đó, dựa trên, tùy, mỗi, phân tích, tạo, cập nhật",
    "เปรียบเทียบ, ถ้า, แล้ว, จากนั้น, ตาม, แต่ละ, วิเคราะห์, สร้าง, อัปเดต",
    # Chinese, Japanese, Korean
    "比较, 比較, 对比, 對比, 区别, 差异, 如果, 假如, 要是, 否则, 然后, 然後, 接着, 之后, 根据, 根據, 基于",
    "取决于, 每个, 每個",
    "分析, 创建, 新建, 建立, 更新, 发送, 比べ, 違い, 差分, もし, なら, 場合, 次に, その後, それから, 基づ",
    "に応じて, によって",
    "ごとに, それぞれ, 作成, 作って, 送って, 送信, 비교, 차이, 만약, 경우, 그런 다음, 다음에, 따라, 기반으로",
    "각각, 마다, 분석",
    "생성, 만들어, 업데이트, 보내",
)

# Where several agents are named: words by which one part of the question speaks of another, or of both as one.
LINKS = Phrases(
    "which, that, those, these, them, they, their, it, its, each other, both, same, than, between, whether",
    "where, who",
    "when, after, before, related, using, affected, affects, result, results, output, in sync, match, matching",
    "map, link",
    "join, merge, combine, combined, together, summarize, summarise, summary, belong, belongs, total, either, or",
    "more",
    "most, less, fewer, broken, down, unavailable, wrong, fails, failed, failing",
    "welche, welcher, welches, welchen, beide, beiden, gleiche, gleichen, zwischen, diese, diesen, deren, dessen",
    "davon",
    "daraus, damit, dazu, zusammen, gemeinsam, oder, kaputt, defekt",
    "que, cuál, cuáles, ambos, ambas, mismo, mismos, entre, ellos, esos, estos, sus, juntos, o, u, roto",
    "qui, quels, quelles, lesquels, lesquelles, dont, ces, leur, leurs, ensemble, mêmes, ou, cassé",
    "che, quali, stessi, tra, loro, insieme, oppure, quais, mesmos, eles, seus, juntos, welke, tussen, deze, samen",
    "który, które, te, ich, razem, lub, который, которые, которых, эти, этих, их, вместе, или, между",
    "両方, それ, その, 同じ, まとめ, 一緒, 它, 这些, 那些, 相同, 一样, 哪些, 一起, 汇总, 或, 둘, 같은, 함께, 또는",
)

AND = Phrases(
    "and, as well as, plus, und, sowie, y, e, et, ainsi que, och, og, oraz, ve, и, та, а также, και, و, और, và, และ",
    "以及, 还有, 그리고",
)
# In these scripts one character is part of many words: it joins only what stands right after it.
AND_BEFORE = frozenset("と和与與及跟와과랑및")
OR = Phrases("or, nor, oder, noch, o, u, ni, ou, of, ani, lub, или, ни, או, أو")

# The agent named right after one of these is not to be asked. They leave alone what stands before them...
WITHOUT = Phrases(
    "without, except, except for, excluding, other than, instead of, rather than",
    "ohne, außer, statt, anstatt, anstelle von, sin, excepto, salvo, en vez de, en lugar de, sans, sauf, excepté",
    "hormis",
    "au lieu de, plutôt que, senza, tranne, eccetto, invece di, al posto di, sem, exceto, em vez de, ao invés de",
    "zonder, behalve, in plaats van, bez, oprócz, zamiast, без, кроме, вместо, بدون, باستثناء, בלי, ללא",
)
# ...and these may be meant for what stands before them.
SHUN = Phrases(
    *(
        f"{no} {verb}"
        for no in ("don't", "dont", "do not", "never", "must not", "mustn't", "should not", "shouldn't")
        for verb in ("use", "ask", "call", "query", "involve", "contact", "consult", "try", "include", "route to")
    ),
    "avoid, forget, drop, ditch, skip, ignore, exclude, bypass, leave out, stop using, avoid using, avoid asking",
    "verwende nicht, benutze nicht, nutze nicht, frage nicht, frag nicht, vermeide, no uses, no use, no usar, evita",
    "no preguntes a, n'utilise pas, n'utilisez pas, ne pas utiliser, évite, évitez, non usare, evita, não use",
    "não usar",
    "gebruik niet, nie używaj, не используй, не используйте, не спрашивай, 不要用, 别用, 不要使用",
)
_AUXILIARIES = (
    *("do", "does", "did", "ca", "wo", "is", "are", "was", "were"),
    *("should", "would", "could", "has", "have", "had", "must", "need"),
)
# A negation of something, maybe of an agent.
NOT = Phrases(
    "not, no, non, never, none, nor, neither, cannot, nothing, nobody, instead, besides, apart from, aside from",
    "anything but, anyone but, anybody but, any but",
    "leave, keep out, done with, get rid of, useless",
    "all but, everything but, without it, without that, without them, do without, go without, avoided, skipped",
    "ignored",
    "excluded, excepted, stop, dont, doesnt, didnt, cant, wont, isnt, arent, shouldnt, wouldnt, hate, forbidden",
    *(f"{verb}n't" for verb in _AUXILIARIES),
    "nicht, kein, keine, keinen, keinem, keiner, keines, nie, niemals, nichts, weder, ohne das, stattdessen, lieber",
    "ausgenommen, verzichte, lass, nunca, jamás, tampoco, ni, menos, nada, pas, jamais, plutôt, aucun, aucune, rien",
    "mai, niente, nessun, nessuno, invece, não, nao, nem, niet, geen, nooit, nie, żaden, не, нет, ни, никогда",
    "нельзя",
    "değil, olmadan, hariç, kullanma, hayır, yok, لا, ليس, ليست, لم, لن, ما عدا, عدا, إلا, غير, דלג, לא, אל, אין",
    "חוץ, מבלי",
    "नहीं, मत, बिना, न, không, đừng, trừ, ไม่, อย่า, ยกเว้น, 不, 别, 別, 没, 沒, 无, 無, 勿, 除, 以外, なし",
    "なく, ない, 除い, やめ",
    "말고, 없이, 제외, 않, 안, 못, 아니, 지 마, 빼고",
)
# What may stand between a negation and the agent it is about.
BETWEEN = Phrases(
    "the, a, an, any, my, our, agent, to, use, using, ask, asking, calling, of, for",
    "den, dem, der, die, das, von, agenten, el, la, los, las, de, del, al, agente, le, les, l, d, du, à, l'agent",
    "il, lo, o",
)

# How a text begins that goes on with what was said.
FOLLOWS = Phrases(
    "and, also, what about, how about, same, again, more, only, just, why, which one, which ones, which of them",
    "which of those, those, these, go on, continue, yes, ok, okay, sure",
    "und, auch, was ist mit, wie sieht es, nochmal, mehr, nur, warum, wieso, weiter, ja",
    "y, qué tal, también, más, solo, por qué, sí, et, aussi, encore, seulement, pourquoi, oui, anche, perché, mais",
    "também, och, og, ook, waarom, oraz, а, и, ещё, еще, почему, да, ve, peki, neden, و, وماذا عن, और, ו, ומה עם",
    "那么, 那麼, 还有, 為什麼, 为什么, じゃあ, では, それと, あと, なぜ, 그리고, 그럼, 왜",
)

RESERVED = (DEPENDS, AND, OR, WITHOUT, SHUN, NOT)
"""Tables whose words cannot be an agent's bare name as well: in a text they mean themselves."""
