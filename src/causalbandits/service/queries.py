"""What programs may look up over HTTP: nothing is changed, and no writer waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request

from causalbandits.errors import CausalBanditsError
from causalbandits.service.http import MOST_CONTEXTS, MOST_ITEMS, Answer, RefusedError, decoded, named_decision
from causalbandits.service.schemas import EvidenceWanted, RecommendationsWanted, RecommendationWanted
from causalbandits.service.workers import Verified, Writer
from causalbandits.study import MODES, Study
from causalbandits.study.remote import evidence_record, recommendation_record, recommendations_record

if TYPE_CHECKING:
    from causalbandits.service.app import Service


# What Prometheus reads: how many decisions, events and outcomes, what waits, how much was committed.
#
# Everything is a count that is kept anyway, so that looking costs a few lookups, however long a study is.

HELP = {
    "decisions": ("counter", "Decisions that were made."),
    "events": ("counter", "Events of decisions: outcomes, corrections, expiries."),
    "outcomes": ("gauge", "Outcomes that count."),
    "reward_sum": ("gauge", "The sum of their rewards."),
    "open_decisions": ("gauge", "Decisions that wait for their outcome."),
    "early_outcomes": ("gauge", "Outcomes that wait for their decision."),
    "oldest_open_seconds": ("gauge", "How long the earliest of the waiting decisions has waited."),
    "budget_left": ("gauge", "What is left of the budget, where there is one."),
    "mode": ("gauge", "1 for the mode that the study is in."),
    "requests": ("counter", "Requests that were written, together with others where they came at once."),
    "refused": ("counter", "Requests that were refused because too many waited."),
    "duplicates": ("counter", "Outcomes that were told again."),
    "commits": ("counter", "Transactions that were written."),
    "queue": ("gauge", "Requests that wait to be written."),
}


async def metrics_text(writers: Mapping[str, Writer]) -> str:
    """All studies, in Prometheus' text format."""
    samples: dict[str, list[str]] = {name: [] for name in HELP}
    for study, writer in sorted(writers.items()):
        for name, value, labels in [*await writer.reader.look(_of_study), *_of_writer(writer)]:
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in (("study", study), *labels))
            samples[name].append(f"causalbandits_{name}{{{shown}}} {value!r}")
    lines: list[str] = []
    for name, (kind, says) in HELP.items():
        if samples[name]:
            lines += [f"# HELP causalbandits_{name} {says}", f"# TYPE causalbandits_{name} {kind}", *samples[name]]
    return "\n".join(lines) + "\n"


Sample = tuple[str, Any, tuple[tuple[str, str], ...]]


def _of_study(study: Study) -> list[Sample]:
    found: list[Sample] = [(name, value, ()) for name, value in study.counts().items() if value is not None]
    return found + [("mode", int(mode == study.mode), (("mode", mode),)) for mode in MODES]


def _of_writer(writer: Writer) -> list[Sample]:
    own = {"requests": writer.done, "refused": writer.refused, "commits": writer.commits, "queue": writer.waiting}
    return [(name, value, ()) for name, value in {**own, "duplicates": writer.duplicates}.items()]


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


READY_SECONDS = 5.0
"""A study that takes longer to answer is not ready."""


async def modes(service: Service, writer: Writer, request: Request) -> Answer:
    """The modes that a study has been in, since when, who chose them and why."""
    return Answer({"modes": await writer.reader.look(lambda study: study.modes())})


async def studies(service: Service, writer: Writer, request: Request) -> Answer:
    """The studies that are served."""
    return Answer({"studies": list(service.open_to(request))})


async def describe(service: Service, writer: Writer, request: Request) -> Answer:
    """What a study is: its problem, who decides, its rules."""
    return Answer(await writer.reader.look(lambda study: study.description()))


async def recommend(service: Service, writer: Writer, request: Request) -> Answer:
    """What to do if the study had to stop now, how sure that is, and whether it may."""
    asked = msgspec.structs.asdict(await decoded(request, RecommendationWanted))
    return Answer(await writer.reader.look(lambda study: recommendation_record(study.recommend(**asked))))


async def recommend_each(service: Service, writer: Writer, request: Request) -> Answer:
    """The same in each context, the likeliest 100 at most."""
    wanted: RecommendationsWanted = await decoded(request, RecommendationsWanted)
    most = MOST_CONTEXTS if wanted.at_most is None else max(0, min(MOST_CONTEXTS, wanted.at_most))

    def work(study: Study) -> Any:
        found = study.recommendations(level=wanted.level, epsilon=wanted.epsilon, at_most=most)
        return recommendations_record(found)

    return Answer(await writer.reader.look(work))


async def evidence(service: Service, writer: Writer, request: Request) -> Answer:
    """What the outcomes say of the model; looks at every one of them."""
    wanted: EvidenceWanted = await decoded(request, EvidenceWanted)
    return Answer(await writer.reader.look(lambda study: evidence_record(study.evidence(level=wanted.level))))


async def report(service: Service, writer: Writer, request: Request) -> Answer:
    """How a study stands: counts, means by action and by configuration."""
    return Answer(await writer.reader.look(lambda study: study.report().to_record()))


async def statistics(service: Service, writer: Writer, request: Request) -> Answer:
    """What was learnt: a line for each context, action and configuration that occurred, the most frequent 10,000."""
    return Answer({"lines": await writer.reader.look(lambda study: study.lines())})


async def explain(service: Service, writer: Writer, request: Request) -> Answer:
    """A decision: what was asked, what was decided, what was told since, and whether it comes out the same again."""
    named = named_decision(request)
    return Answer(await writer.reader.look(lambda study: study.explain(study.id_of(*named))))


async def events(service: Service, writer: Writer, request: Request) -> Answer:
    """Events after a number, 1,000 at most: to follow a study from outside."""
    after = request.query_params.get("after", "0")
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise RefusedError(400, f"after must be the number of an event; got {after!r:.60}.")
    return Answer({"events": await writer.reader.look(lambda study: study.events(int(after), MOST_ITEMS))})


async def verify(service: Service, writer: Writer, request: Request) -> Answer:
    """Fold the log again, and compare with what is kept, bit for bit."""
    found = await writer.reader.look(lambda study: study.verify())
    writer.verified = Verified(time.time(), found)
    return Answer({"ok": bool(found), **found._asdict()})


async def alive(service: Service, writer: Writer, request: Request) -> Answer:
    """The process runs."""
    return Answer({"status": "ok"})


async def ready(service: Service, writer: Writer, request: Request) -> Answer:
    """Every study can be written."""
    able = await asyncio.gather(*(_answers(own) for own in service.writers.values()))
    dead = [name for name, is_able in zip(service.writers, able, strict=True) if not is_able]
    return Answer({"status": "dead", "studies": dead}, 503) if dead else Answer({"status": "ok"})


async def _answers(writer: Writer) -> bool:
    """Whether a writer gets a transaction of its study, in time."""
    if not writer.is_alive:
        return False
    try:
        await asyncio.wait_for(writer.do(lambda study: study.version), READY_SECONDS)
    except (TimeoutError, CausalBanditsError):
        return False
    return True


async def metrics(service: Service, writer: Writer, request: Request) -> Answer:
    """Counts of every study and its writer, as Prometheus reads them."""
    return Answer(await metrics_text(service.open_to(request)))


async def openapi(service: Service, writer: Writer, request: Request) -> Answer:
    """This interface, for tools."""
    from causalbandits.service.openapi import document
    from causalbandits.service.routes import ROUTES

    return Answer(document(ROUTES))
