"""Who answers a text: a table of what people write, and what holds for every text."""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from anabranch.errors import ClientError
from anabranch.supervisor.routing import Known, decide, pins

FLEET = (
    Known("komodor", ("kubernetes view", "コモドール")),
    Known("argocd", ("argo-cd",)),
    Known("jira"),
    Known("git"),
    Known("github"),
    Known("rag"),
    Known("graph-rag"),
    Known("aws"),
    Known("weather", ("天気", "天气", "날씨", "погода", "מזג האוויר", "الطقس", "मौसम", "อากาศ")),
    Known("go"),
    Known("if"),
    Known("then"),
    Known("search", named=False),
    Known("node.js"),
    Known("net_utils"),
    Known("together"),
    Known("to-do"),
    Known("Straße"),
    Known("pager", ("on call",)),
    Known("opsgenie", ("on call",)),
)

SUPERVISOR: tuple[str, tuple[str, ...]] = ("supervisor", ())


def direct(agent: str) -> tuple[str, tuple[str, ...]]:
    return "direct", (agent,)


def parallel(*agents: str) -> tuple[str, tuple[str, ...]]:
    return "parallel", agents


# The text, who answers it, and what the reason has in it.
TABLE = [
    # what the product is for
    ("show me komodor clusters", direct("komodor"), "only komodor is named"),
    ("compare komodor clusters with argocd apps", SUPERVISOR, "`compare`"),
    ("komodor clusters and argocd apps", parallel("komodor", "argocd"), "each for itself"),
    # names are whole words: the known mis-routes
    ("is the storage of the cluster full?", SUPERVISOR, "no agent is named"),
    ("who draws the diagrams", SUPERVISOR, "no agent is named"),
    ("explain the authentication", SUPERVISOR, "no agent is named"),
    ("please verify the notifications", SUPERVISOR, "no agent is named"),
    ("legitimate digits", SUPERVISOR, "no agent is named"),
    ("list the github repositories", direct("github"), "only github"),
    ("git log of main", direct("git"), "only git is named"),
    ("rag results for onboarding", direct("rag"), "only rag is named"),
    ("graph-rag results for onboarding", direct("graph-rag"), "only graph-rag"),
    ("graph rag results", direct("graph-rag"), "only graph-rag"),
    ("graph_rag and git", parallel("graph-rag", "git"), "each for itself"),
    ("the vector-rag is slow", SUPERVISOR, "rag is only part of something longer"),
    ("komodors clusters", SUPERVISOR, "no agent is named"),
    ("komodor2 clusters", SUPERVISOR, "no agent is named"),
    # a single agent and words that join it to something else: the other known mis-route
    ("create a jira ticket for the pods that fail", SUPERVISOR, "`create`"),
    ("open a jira ticket for every failing pod", SUPERVISOR, "`open a`"),
    ("show open jira tickets", direct("jira"), "only jira"),
    ("jira tickets created today", direct("jira"), "only jira"),
    ("if komodor reports a problem tell me", SUPERVISOR, "`if`"),
    ("check komodor, then tell me", SUPERVISOR, "`then`"),
    ("based on komodor, what is wrong?", SUPERVISOR, "`based on`"),
    ("depending on the komodor status, scale up", SUPERVISOR, "`depending on`"),
    ("for each komodor cluster list the nodes", SUPERVISOR, "`for each`"),
    ("analyze the komodor incidents", SUPERVISOR, "`analyze`"),
    ("which komodor clusters are unhealthy", direct("komodor"), "only komodor"),
    ("komodor clusters that have three nodes", direct("komodor"), "only komodor"),
    ("Is komodor up? And what is for lunch?", SUPERVISOR, "more than one question"),
    # case and the way it is written
    ("SHOW ME KOMODOR CLUSTERS", direct("komodor"), "only komodor"),
    ("Using KoMoDoR agent", direct("komodor"), "only komodor"),
    ("ｓｈｏｗ ｋｏｍｏｄｏｒ", direct("komodor"), "only komodor"),
    ("𝐤𝐨𝐦𝐨𝐝𝐨𝐫 clusters", direct("komodor"), "only komodor"),
    ("STRASSE 5", direct("Straße"), "only Straße"),
    ("komodor's clusters", direct("komodor"), "only komodor"),
    ("komodor’s clusters", direct("komodor"), "only komodor"),
    ("l'argocd de prod", direct("argocd"), "only argocd"),
    ("**komodor** clusters", direct("komodor"), "only komodor"),
    ("(komodor) clusters, please.", direct("komodor"), "only komodor"),
    ("Clusters of komodor.", direct("komodor"), "only komodor"),
    ("komodor:\n- clusters", direct("komodor"), "only komodor"),
    ("komodor komodor komodor", direct("komodor"), "only komodor"),
    # names with signs in them
    ("argo cd apps", direct("argocd"), "only argocd is named, as argo-cd"),
    ("argo-cd apps", direct("argocd"), "as argo-cd"),
    ("Argo_CD apps", direct("argocd"), "argocd"),
    ("argo  cd apps", SUPERVISOR, "no agent is named"),
    ("node.js version", direct("node.js"), "only node.js"),
    ("nodejs version", direct("node.js"), "only node.js"),
    ("net utils ping", direct("net_utils"), "only net_utils"),
    ("net-utils ping", direct("net_utils"), "only net_utils"),
    ("how do I get her ticket to get her home", SUPERVISOR, "no agent is named"),
    ("what do I have to do", SUPERVISOR, "no agent is named"),
    ("my to-do list", direct("to-do"), "only to-do"),
    ("the kubernetes view of prod", direct("komodor"), "as kubernetes view"),
    # part of something else
    ("why is komodor.example.com slow", SUPERVISOR, "part of something longer"),
    ("read /var/log/komodor please", SUPERVISOR, "part of something longer"),
    ("look at https://github.com/a/b", SUPERVISOR, "part of something longer"),
    ("set KOMODOR_TOKEN", SUPERVISOR, "part of something longer"),
    ("zeig mir die Komodor-Cluster", SUPERVISOR, "part of something longer"),
    ("run with --komodor", SUPERVISOR, "part of something longer"),
    ("post in #komodor", SUPERVISOR, "part of something longer"),
    ("is the argocd app komodor-agent healthy", SUPERVISOR, "komodor is only part"),
    ("is komodor.example.com the host of komodor", direct("komodor"), "only komodor"),
    # names that are common words
    ("let us go on", SUPERVISOR, "no agent is named"),
    ("if it rains", SUPERVISOR, "no agent is named"),
    ("@go list the modules", direct("go"), "addressed as @go"),
    ("@then wait", direct("then"), "addressed as @then"),
    ("search the logs", SUPERVISOR, "no agent is named"),
    ("@search the logs", direct("search"), "addressed as @search"),
    ("search the jira tickets", direct("jira"), "only jira"),
    ("weather in Rome", direct("weather"), "only weather"),
    # addresses
    ("@komodor show clusters", direct("komodor"), "addressed as @komodor"),
    ("show clusters @Komodor", direct("komodor"), "addressed as @komodor"),
    ("＠komodor show clusters", direct("komodor"), "addressed as @komodor"),
    ("(@komodor) show clusters", direct("komodor"), "addressed as @komodor"),
    ("@argo-cd, apps?", direct("argocd"), "addressed as @argo-cd"),
    ("@komodor compare prod with stage, then tell me", direct("komodor"), "addressed"),
    ("@komodor which of your clusters run argocd", direct("komodor"), "addressed"),
    ("@komodor which pods are not ready", direct("komodor"), "addressed"),
    ("@komodor @argocd which versions", parallel("komodor", "argocd"), "@komodor and @argocd"),
    ("compare @komodor with @argocd", SUPERVISOR, "`compare`"),
    ("@supervisor show me komodor clusters", SUPERVISOR, "addressed as @supervisor"),
    ("mail user@komodor", SUPERVISOR, "part of something longer"),
    ("mail user.name@komodor.io", SUPERVISOR, "part of something longer"),
    ("@stranger show clusters", SUPERVISOR, "no agent is named"),
    ("@stranger show komodor clusters", direct("komodor"), "only komodor"),
    ("npm i @komodor/agent", SUPERVISOR, "part of something longer"),
    ("@komodor-agent restarts", SUPERVISOR, "part of something longer"),
    ("@@komodor x", SUPERVISOR, "part of something longer"),
    ("@ komodor clusters", direct("komodor"), "only komodor"),
    ("@on-call who is it", SUPERVISOR, "may be any of pager and opsgenie"),
    ("who is on call", SUPERVISOR, "may be any of pager and opsgenie"),
    # negation
    ("don't use komodor", SUPERVISOR, "komodor is excluded"),
    ("don’t use komodor", SUPERVISOR, "komodor is excluded"),
    ("dont ask the komodor agent", SUPERVISOR, "komodor is excluded"),
    ("do not use komodor, use argocd", direct("argocd"), "only argocd"),
    ("argocd apps without komodor", direct("argocd"), "only argocd"),
    ("argocd apps without asking komodor", direct("argocd"), "only argocd"),
    ("use argocd instead of komodor", direct("argocd"), "only argocd"),
    ("everything except komodor", SUPERVISOR, "komodor is excluded"),
    ("not komodor", SUPERVISOR, "`not` may exclude komodor"),
    ("argocd, not komodor", SUPERVISOR, "`not`"),
    ("komodor is broken, use argocd instead", SUPERVISOR, "`instead`"),
    ("komodor is broken, ask argocd", SUPERVISOR, "`broken`"),
    ("komodor? do without it", SUPERVISOR, "`do without`"),
    ("forget komodor and ask argocd", direct("argocd"), "only argocd"),
    ("leave komodor out of it", SUPERVISOR, "`leave`"),
    ("ask anyone but komodor", SUPERVISOR, "`anyone but`"),
    ("without komodor and argocd", SUPERVISOR, "may exclude"),
    ("komodor and argocd but without jira", parallel("komodor", "argocd"), "each for itself"),
    ("komodor pods without limits", direct("komodor"), "only komodor"),
    ("pods without limits in komodor", SUPERVISOR, "`without`"),
    ("why is the app not in sync in argocd", SUPERVISOR, "`not`"),
    ("don't ask @komodor", SUPERVISOR, "komodor is excluded"),
    ("don't ask @komodor, ask @argocd", direct("argocd"), "addressed as @argocd"),
    ("frag @komodor nicht", SUPERVISOR, "`nicht`"),
    ("ohne komodor, zeig die argocd Apps", direct("argocd"), "only argocd"),
    ("komodor bitte nicht benutzen", SUPERVISOR, "`nicht`"),
    ("sin komodor", SUPERVISOR, "komodor is excluded"),
    ("n'utilise pas komodor", SUPERVISOR, "komodor is excluded"),
    ("senza komodor, le app di argocd", direct("argocd"), "only argocd"),
    ("без komodor", SUPERVISOR, "komodor is excluded"),
    ("不要用komodor", SUPERVISOR, "komodor is excluded"),
    ("komodor以外で", SUPERVISOR, "`以外`"),
    ("komodor 말고", SUPERVISOR, "`말고`"),
    # several
    ("komodor, argocd, jira", parallel("komodor", "argocd", "jira"), "each for itself"),
    ("clusters in komodor, apps in argocd and tickets in jira", parallel("komodor", "argocd", "jira"), "each"),
    ("komodor & argocd status", parallel("komodor", "argocd"), "each for itself"),
    ("argocd apps and komodor clusters", parallel("argocd", "komodor"), "argocd and komodor"),
    ("komodor clusters for argocd apps", SUPERVISOR, "no `and` or list"),
    ("komodor or argocd", SUPERVISOR, "`or`"),
    ("get pods from komodor and tell jira about them", SUPERVISOR, "`them`"),
    ("komodor clusters, e.g. argocd", SUPERVISOR, "no `and` or list"),
    ("komodor status, I've argocd", SUPERVISOR, "no `and` or list"),
    ("komodor clusters and argocd apps that are unhealthy", SUPERVISOR, "`that`"),
    # other languages
    ("vergleiche komodor mit der Doku", SUPERVISOR, "`vergleiche`"),
    ("wenn komodor rot ist, sag es mir", SUPERVISOR, "`wenn`"),
    ("komodor Cluster und argocd Apps", parallel("komodor", "argocd"), "each for itself"),
    ("crea un ticket de jira para los pods", SUPERVISOR, "`crea`"),
    ("clusters de komodor y aplicaciones de argocd", parallel("komodor", "argocd"), "each for itself"),
    ("clusters de komodor en argocd", SUPERVISOR, "no `and` or list"),
    ("les clusters de komodor et les apps d'argocd", parallel("komodor", "argocd"), "each for itself"),
    ("selon komodor, tout va bien", SUPERVISOR, "`selon`"),
    ("komodor'daki cluster'lar", direct("komodor"), "only komodor"),
    ("покажи кластеры komodor", direct("komodor"), "only komodor"),
    ("Погода в Риме", direct("weather"), "as погода"),
    ("сравни komodor с прошлой неделей", SUPERVISOR, "`сравни`"),
    ("непогода в Риме", SUPERVISOR, "no agent is named"),
    ("הצג את komodor", direct("komodor"), "only komodor"),
    ("מה מזג האוויר ברומא", direct("weather"), "as מזג האוויר"),
    ("אם komodor נפל", SUPERVISOR, "`אם`"),
    ("ما هو الطقس في روما", direct("weather"), "as الطقس"),
    ("لا komodor", SUPERVISOR, "`لا`"),
    ("रोम में मौसम", direct("weather"), "as मौसम"),
    ("रोम में मौसमी फल", SUPERVISOR, "no agent is named"),  # a longer word, by its vowel sign
    ("komodorのクラスタを見せて", direct("komodor"), "only komodor"),
    ("コモドールのクラスタ", direct("komodor"), "as コモドール"),
    ("スーパーコモドールの話", SUPERVISOR, "no agent is named"),
    ("東京の天気は", direct("weather"), "as 天気"),
    ("komodorのクラスタとargocdのアプリ", parallel("komodor", "argocd"), "each for itself"),
    ("komodorとargocdを比較して", SUPERVISOR, "`比較`"),
    ("見て@komodorを", direct("komodor"), "addressed as @komodor"),
    ("显示komodor的集群", direct("komodor"), "only komodor"),
    ("北京天气怎么样", direct("weather"), "as 天气"),
    ("如果komodor有问题", SUPERVISOR, "`如果`"),
    ("komodor의 클러스터", direct("komodor"), "only komodor"),
    ("날씨는 어때", direct("weather"), "as 날씨"),
    ("봄날씨는 어때", SUPERVISOR, "no agent is named"),
    ("สภาพอากาศวันนี้", direct("weather"), "as อากาศ"),
    # emoji and what cannot be seen
    ("🚀komodor🚀 clusters", direct("komodor"), "only komodor"),
    ("👩‍💻 komodor ❤️ clusters", direct("komodor"), "only komodor"),
    ("kom\u00adodor clusters", direct("komodor"), "only komodor"),
    ("\ufeff@komodor clusters", direct("komodor"), "addressed"),
    ("\u2067komodor\u2069 clusters", direct("komodor"), "only komodor"),
    ("komodor\u200bclusters", direct("komodor"), "only komodor"),
    ("x\u200dkomodor", SUPERVISOR, "no agent is named"),
    ("kоmodor with a Cyrillic o", SUPERVISOR, "no agent is named"),
    ("komodor\ud83d clusters", direct("komodor"), "only komodor"),
    # quotations
    ("what does `komodor` mean", SUPERVISOR, "only in what is quoted"),
    ('what does "komodor" mean', SUPERVISOR, "only in what is quoted"),
    ("was heißt „komodor“", SUPERVISOR, "only in what is quoted"),
    ("que veut dire « @komodor »", SUPERVISOR, "only in what is quoted"),
    ("「komodor」とは", SUPERVISOR, "only in what is quoted"),
    ("> ask komodor\nwhat did she mean", SUPERVISOR, "only in what is quoted"),
    ("explain\n```\n@komodor restart\n```", SUPERVISOR, "only in what is quoted"),
    ("explain ```komodor", SUPERVISOR, "only in what is quoted"),
    ('jira tickets titled "compare and contrast"', direct("jira"), "only jira"),
    ("```\nif x: log\n```\n@komodor what is this", direct("komodor"), "addressed"),
    ("it's komodor's, isn't it's", SUPERVISOR, "`isn't`"),
    # nothing
    ("", SUPERVISOR, "no agent is named"),
    (" \n", SUPERVISOR, "no agent is named"),
    ("@", SUPERVISOR, "no agent is named"),
    ("🤷", SUPERVISOR, "no agent is named"),
]


@pytest.mark.parametrize(("text", "expected", "why"), TABLE, ids=[f"{n}" for n in range(len(TABLE))])
def test_a_text_is_answered_by_whom_it_means(text: str, expected: tuple[str, tuple[str, ...]], why: str) -> None:
    decision = decide(text, FLEET)
    assert ((decision.route, decision.agents), why in decision.reason) == (expected, True), decision


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("@komodor show clusters", "show clusters"),
        ("  @komodor, show `clusters`\n", "show `clusters`\n"),
        ("@komodor: @argocd: versions?", "versions?"),
        ("\ufeff@Komodor\u2014versions?", "versions?"),
        ("@komodor, @argocd\nversions?", "versions?"),
        ("@天気を教えて", "を教えて"),
        ("@komodor", "@komodor"),
        ("@komodor's clusters", "@komodor's clusters"),
        ("show clusters @komodor", "show clusters @komodor"),
        ("@komodor what does @argocd say", "@komodor what does @argocd say"),
        ('"x" @komodor y', '"x" @komodor y'),
        ("@supervisor show clusters", "@supervisor show clusters"),
        ("show me komodor clusters", "show me komodor clusters"),
    ],
)
def test_an_agent_is_asked_the_text_without_the_address_before_it(text: str, question: str) -> None:
    assert decide(text, FLEET).question == question


# --- modes, pins, follow-ups -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["@komodor clusters", "komodor clusters", ""])
@pytest.mark.parametrize("pinned", [None, "komodor"])
def test_off_is_the_supervisor_whatever_is_said(text: str, pinned: str | None) -> None:
    decision = decide(text, FLEET, mode="off", pinned=pinned, last="komodor")
    assert (decision.route, decision.agents, decision.question) == (*SUPERVISOR, text)
    assert decision.reason == "routing is off"


@pytest.mark.parametrize(
    ("text", "pinned", "expected"),
    [
        ("komodor clusters", None, SUPERVISOR),
        ("and in prod?", None, SUPERVISOR),
        ("@komodor clusters", None, direct("komodor")),
        ("don't ask @komodor", None, SUPERVISOR),
        ("clusters", "komodor", direct("komodor")),
    ],
)
def test_explicit_goes_by_addresses_and_pins_only(
    text: str, pinned: str | None, expected: tuple[str, tuple[str, ...]]
) -> None:
    decision = decide(text, FLEET, mode="explicit", pinned=pinned, last="komodor")
    assert (decision.route, decision.agents) == expected


@pytest.mark.parametrize(
    ("pinned", "expected"),
    [
        ("komodor", direct("komodor")),
        ("KOMODOR", direct("komodor")),
        ("argo-cd", direct("argocd")),
        ("go", direct("go")),
        (["jira", "komodor", "jira"], parallel("jira", "komodor")),
        ("supervisor", SUPERVISOR),
        (["komodor", "supervisor"], SUPERVISOR),
    ],
)
def test_a_pin_beats_what_the_text_says(pinned: str | list[str], expected: tuple[str, tuple[str, ...]]) -> None:
    decision = decide("@argocd compare, don't use komodor", FLEET, pinned=pinned)
    assert (decision.route, decision.agents) == expected
    assert decision.reason.startswith("the request asks for")


@pytest.mark.parametrize("nothing", ["", [], (), None])
def test_an_empty_pin_is_none(nothing: str | list[str] | None) -> None:
    assert decide("komodor", FLEET, pinned=nothing).route == "direct"


@pytest.mark.parametrize("mode", ["on", "off", "explicit"])
@pytest.mark.parametrize("pinned", ["komodo", "on call", "komodor argocd", "🚀"])
def test_a_pin_that_names_no_agent_is_the_clients_error_and_says_who_is_there(mode: str, pinned: str) -> None:
    with pytest.raises(ClientError, match=r"komodor, argocd, jira.*supervisor") as refused:
        decide("clusters", FLEET, mode=mode, pinned=pinned)  # type: ignore[arg-type]
    assert (refused.value.code, refused.value.status) == ("unknown_agent", 400)
    assert pinned in str(refused.value)


def test_the_options_of_a_request_pin_one_agent_or_several_and_others_leave_it_alone() -> None:
    assert pins({"anabranch": {"agent": "komodor"}, "x": 1}) == ("komodor",)
    assert pins({"anabranch": {"agent": ["komodor", "jira"]}}) == ("komodor", "jira")
    for other in (None, {}, [], "komodor", {"agent": "komodor"}, {"anabranch": None}, {"anabranch": {"agent": None}}):
        assert pins(other) == ()
    for wrong in (1, {"name": "komodor"}, ["komodor", 1], True):
        with pytest.raises(ClientError, match=r"anabranch\.agent"):
            pins({"anabranch": {"agent": wrong}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("and in prod?", direct("komodor")),
        ("What about stage", direct("komodor")),
        ("und in prod?", direct("komodor")),
        ("¿y en prod?", direct("komodor")),
        ("et en prod ?", direct("komodor")),
        ("那么生产呢", direct("komodor")),
        ("yes", direct("komodor")),
        ("and argocd?", direct("argocd")),
        ("and komodor or argocd?", SUPERVISOR),
        ("and in komodor.example.com?", SUPERVISOR),
        ("and `argocd`?", SUPERVISOR),
        ("and then?", SUPERVISOR),
        ("and not in prod?", SUPERVISOR),
        ("and what is the weather like in Rome", direct("weather")),
        ("and what is the news of today in Rome", SUPERVISOR),
        ("how many users do we have", SUPERVISOR),
        ("in prod?", SUPERVISOR),
        ("", SUPERVISOR),
    ],
)
def test_a_short_follow_up_stays_with_the_agent_that_answered(text: str, expected: tuple[str, tuple[str, ...]]) -> None:
    decision = decide(text, FLEET, last="komodor")
    assert (decision.route, decision.agents) == expected, decision


@pytest.mark.parametrize("last", [None, "gone", "", "supervisor"])
def test_a_follow_up_to_nobody_that_is_known_goes_to_the_supervisor(last: str | None) -> None:
    assert decide("and in prod?", FLEET, last=last).reason == "no agent is named"


# --- what was not read ------------------------------------------------------------------------------------------------

LOG = "2026-01-01 argocd restarted, komodor said so\n" * 2_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LOG, SUPERVISOR),
        ("komodor: " + LOG, SUPERVISOR),
        ("@komodor " + LOG, direct("komodor")),
        (LOG + "\n@komodor what is this", direct("komodor")),
        (LOG + "\ndon't ask @komodor", SUPERVISOR),
        (LOG + "@komodor" + LOG, SUPERVISOR),
        ("x" * 5_000 + "@komodor" * 2_000, SUPERVISOR),  # cut inside a word
        (f"komodor, what is this\n```\n{LOG}```", direct("komodor")),
    ],
)
def test_of_a_long_text_only_addresses_at_its_ends_count_and_code_makes_no_text_long(
    text: str, expected: tuple[str, tuple[str, ...]]
) -> None:
    decision = decide(text, FLEET)
    assert (decision.route, decision.agents) == expected, decision.reason


def test_a_long_text_to_an_agent_arrives_whole() -> None:
    assert decide("@komodor " + LOG, FLEET).question == LOG


MEGABYTE = 1_000_000
HARD = [
    "komodor ",
    "`",
    '"',
    ' "a',
    " 'a",
    "@",
    "「",
    "don't ",
    "> \n",
    "```",
    "```\n~~~",
    "不",
    "\u0301",
    "\u200d",
    "a",
    "-",
    "@a",
]


@pytest.mark.parametrize("piece", [*HARD, "komodor and ", "komodor-"])
@pytest.mark.parametrize("count", [8_000, MEGABYTE])
def test_no_text_takes_long(piece: str, count: int) -> None:
    many = tuple(Known(f"agent-{n}", (f"alias {n}", f"別名{n}")) for n in range(100)) + FLEET
    text = piece * (count // len(piece))
    decide("", many)
    began = time.process_time()
    decide(text, many, last="komodor")
    assert time.process_time() - began < 0.5


# --- whatever is said -------------------------------------------------------------------------------------------------

NAMES = [known.name for known in FLEET]
WORDS = [
    *(called for known in FLEET for called in (known.name, *known.aliases)),
    *(
        "show",
        "clusters",
        "and",
        "or",
        ",",
        ".",
        "?",
        "compare",
        "if",
        "@",
        "'s",
        '"',
        "`",
        "```",
        "\n",
        "-",
        "/",
        "the",
    ),
    *(
        "without",
        "don't use",
        "not",
        "ohne",
        "と",
        "的",
        "以外",
        "🚀",
        "\u200d",
        "e",
        "which",
        "用",
        "@komodor",
        "user@komodor",
    ),
]
texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=12).flatmap(
    lambda pieces: st.sampled_from([" ", ""]).map(lambda gap: gap.join(pieces))
)
lasts = st.none() | st.sampled_from(NAMES)
quick = settings(max_examples=400, deadline=None, database=None)


@given(texts, lasts, st.sampled_from(["on", "explicit", "off"]))
@quick
def test_every_decision_is_lawful_and_the_same_again(text: str, last: str | None, mode: str) -> None:
    decision = decide(text, FLEET, mode=mode, last=last)  # type: ignore[arg-type]
    assert decision == decide(text, [*FLEET], mode=mode, last=last)  # type: ignore[arg-type]
    assert {*decision.agents} <= {*NAMES} and len({*decision.agents}) == len(decision.agents)
    assert len(decision.agents) == {"supervisor": 0, "direct": 1}.get(decision.route, max(2, len(decision.agents)))
    assert decision.reason and text.endswith(decision.question)


@given(texts, lasts)
@quick
def test_case_makes_no_difference(text: str, last: str | None) -> None:
    assume("İ" not in text)  # its small form has a mark of its own
    spoken, folded = decide(text, FLEET, last=last), decide(text.casefold(), FLEET, last=last)
    assert (spoken.route, spoken.agents) == (folded.route, folded.agents)
    shouted = decide("".join(char.upper() if char.isascii() else char for char in text), FLEET, last=last)
    assert (spoken.route, spoken.agents) == (shouted.route, shouted.agents)


@given(
    st.lists(
        st.sampled_from(["show", "the clusters of", "please", "komodor", "jira and", "weather", "@git"]), max_size=5
    ),
    st.sampled_from(
        ["without", "don't use", "do not ask", "avoid", "not", "never", "ohne", "sin", "sans", "без", "不要用"]
    ),
    st.sampled_from(["", "the", "asking", "@"]),
    st.sampled_from(["argocd", "argo-cd", "ARGO CD"]),
    st.lists(st.sampled_from([",", "use", "komodor", "please", ".", "and", "jira", "@git"]), max_size=5),
)
@example([], "not", "", "argocd", ["use", "komodor"])
@quick
def test_nobody_is_asked_who_is_not_to_be(before: list[str], no: str, filler: str, name: str, after: list[str]) -> None:
    gap = "" if filler == "@" else " "
    text = " ".join([*before, no, f"{filler}{gap}{name}".strip(), *after])
    assert "argocd" not in decide(text, FLEET, last="argocd").agents, text


@given(
    texts.filter(lambda text: not set("`\"'>~“„«‹‘「『") & set(text)),
    st.sampled_from(["komodor", "argocd", "git", "weather", "rag", "Straße"]),
    st.text("abcxyzäé0123", min_size=1, max_size=3),
    st.booleans(),
)
@example("show komodor clusters", "rag", "sto", True)
@quick
def test_a_name_inside_a_longer_word_changes_nothing(text: str, name: str, letters: str, ahead: bool) -> None:
    longer = letters + name if ahead else name + letters
    assume(longer not in ("github",))
    plain, added = decide(f"{text} stuff", FLEET), decide(f"{text} {longer}", FLEET)
    assert (plain.route, plain.agents) == (added.route, added.agents)


@given(texts)
@quick
def test_without_agents_everything_is_the_supervisors(text: str) -> None:
    decision = decide(text, [])
    assert (decision.route, decision.agents, decision.question) == (*SUPERVISOR, text)


def test_names_of_the_same_letters_are_told_apart_by_their_signs_or_not_at_all() -> None:
    twins = [Known("a-bc"), Known("abc"), Known("ab_c")]
    assert decide("ask abc", twins).agents == ("abc",)
    assert decide("ask a-bc", twins).agents == ("a-bc",)
    assert decide("ask AB_C", twins).agents == ("ab_c",)
    assert decide("ask ab-c", twins).reason == "a-bc may be any of a-bc, abc and ab_c"
    assert decide("x", twins, pinned="ab_c").agents == ("ab_c",)


def test_a_name_comes_before_an_alias_of_another() -> None:
    agents = [Known("github", ("git", "octo")), Known("git")]
    assert decide("git log", agents).agents == ("git",)
    assert decide("octo repositories", agents).agents == ("github",)
    assert decide("", agents, pinned="git").agents == ("git",)


def test_an_alias_without_letters_is_harmless() -> None:
    assert decide("🚀 komodor", [Known("komodor", ("🚀", ""))]).agents == ("komodor",)
