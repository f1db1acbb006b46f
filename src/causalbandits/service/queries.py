"""Handlers that read: they change nothing, and no writer waits for them.

Metrics are counts that are stored anyway, so that reading them costs a few lookups, however long a study is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from causalbandits.errors import CausalBanditsError
from causalbandits.service.group_commit import LastVerification, Writer
from causalbandits.service.http import (
    MAX_ITEMS,
    MAX_RECOMMENDED_CONTEXTS,
    RequestError,
    ServiceContext,
    json_response,
    parse_decision_id,
)
from causalbandits.service.schemas import (
    EventsResponse,
    EvidenceRequest,
    JSONRecord,
    ModesResponse,
    ReadinessResponse,
    RecommendEachRequest,
    RecommendRequest,
    StatisticsResponse,
    StatusResponse,
    StudiesResponse,
    VerifyResponse,
)
from causalbandits.study import MODES, Study
from causalbandits.study.remote import encode_evidence, encode_recommendation, encode_recommendations

METRICS = {
    "decisions": ("counter", "Decisions that were made."),
    "events": ("counter", "Events of decisions: outcomes, corrections, expiries."),
    "outcomes": ("gauge", "Outcomes that count."),
    "outcomes_incomplete": ("gauge", "Outcomes that lack a value that the policy needs."),
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


async def format_metrics(writers: Mapping[str, Writer]) -> str:
    """The metrics of all studies, in Prometheus' text format."""
    samples: dict[str, list[str]] = {name: [] for name in METRICS}
    for study, writer in sorted(writers.items()):
        for name, value, labels in [*await writer.reader.read(_study_samples), *_writer_samples(writer)]:
            label_text = ",".join(f'{key}="{_escape_label(text)}"' for key, text in (("study", study), *labels))
            samples[name].append(f"causalbandits_{name}{{{label_text}}} {value!r}")
    lines: list[str] = []
    for name, (kind, description) in METRICS.items():
        if samples[name]:
            lines += [
                f"# HELP causalbandits_{name} {description}",
                f"# TYPE causalbandits_{name} {kind}",
                *samples[name],
            ]
    return "\n".join(lines) + "\n"


Sample = tuple[str, Any, tuple[tuple[str, str], ...]]


def _study_samples(study: Study) -> list[Sample]:
    samples: list[Sample] = [(name, value, ()) for name, value in study.counts().items() if value is not None]
    return samples + [("mode", int(mode == study.mode), (("mode", mode),)) for mode in MODES]


def _writer_samples(writer: Writer) -> list[Sample]:
    counts = {
        "requests": writer.completed,
        "refused": writer.rejected,
        "commits": writer.commits,
        "queue": writer.waiting,
    }
    return [(name, value, ()) for name, value in {**counts, "duplicates": writer.duplicates}.items()]


def _escape_label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


PROMETHEUS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

READINESS_TIMEOUT = 5.0
"""Seconds; a study whose writer takes longer is not ready."""


async def modes(writer: Writer, request: Request) -> ModesResponse:
    """The modes that a study has been in, since when, who chose them and why."""
    return ModesResponse(await writer.reader.read(lambda study: study.modes()))


async def studies(context: ServiceContext, request: Request) -> StudiesResponse:
    """The studies that are served."""
    return StudiesResponse(list(context.accessible_writers(request)))


async def describe(writer: Writer, request: Request) -> JSONRecord:
    """What a study is: its problem, who decides, its rules."""
    return await writer.reader.read(lambda study: study.description())


async def recommend(writer: Writer, request: Request, body: RecommendRequest) -> JSONRecord:
    """What to do if the study had to stop now, how sure that is, and whether it may."""
    arguments = msgspec.structs.asdict(body)
    return await writer.reader.read(lambda study: encode_recommendation(study.recommend(**arguments)))


async def recommend_each(writer: Writer, request: Request, body: RecommendEachRequest) -> JSONRecord:
    """The same in each context, the likeliest 100 at most."""
    limit = MAX_RECOMMENDED_CONTEXTS if body.at_most is None else max(0, min(MAX_RECOMMENDED_CONTEXTS, body.at_most))

    def work(study: Study) -> Any:
        recommendations = study.recommendations(level=body.level, epsilon=body.epsilon, at_most=limit)
        return encode_recommendations(recommendations)

    return await writer.reader.read(work)


async def evidence(writer: Writer, request: Request, body: EvidenceRequest) -> JSONRecord:
    """What the outcomes say of the model; looks at every one of them."""
    return await writer.reader.read(lambda study: encode_evidence(study.evidence(level=body.level)))


async def report(writer: Writer, request: Request) -> JSONRecord:
    """How a study stands: counts, means by action and by configuration."""
    return await writer.reader.read(lambda study: study.report().to_record())


async def statistics(writer: Writer, request: Request) -> StatisticsResponse:
    """What was learnt: a line for each context, action and configuration that occurred, the most frequent 10,000."""
    return StatisticsResponse(await writer.reader.read(lambda study: study.lines()))


async def explain(writer: Writer, request: Request) -> JSONRecord:
    """A decision: what was asked, what was decided, what was told since, and whether it comes out the same again."""
    decision_id = parse_decision_id(request)
    return await writer.reader.read(lambda study: study.explain(study.id_of(*decision_id)))


async def events(writer: Writer, request: Request) -> EventsResponse:
    """Events after a number, 1,000 at most: to follow a study from outside."""
    after = request.query_params.get("after", "0")
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise RequestError(400, f"after must be the number of an event; got {after!r:.60}.")
    return EventsResponse(await writer.reader.read(lambda study: study.events(int(after), MAX_ITEMS)))


async def verify(writer: Writer, request: Request) -> VerifyResponse:
    """Fold the log again, and compare with what is kept, bit for bit."""
    verification = await writer.reader.read(lambda study: study.verify())
    writer.last_verification = LastVerification(time.time(), verification)
    return VerifyResponse(
        bool(verification), verification.decisions, verification.events, list(verification.differences)
    )


async def alive(context: ServiceContext, request: Request) -> StatusResponse:
    """The process runs."""
    return StatusResponse("ok")


async def ready(context: ServiceContext, request: Request) -> ReadinessResponse | Response:
    """Every study can be written."""
    responses = await asyncio.gather(*(_is_responsive(study_writer) for study_writer in context.writers.values()))
    unavailable = [name for name, is_responsive in zip(context.writers, responses, strict=True) if not is_responsive]
    return json_response(ReadinessResponse("dead", unavailable), 503) if unavailable else ReadinessResponse("ok")


async def _is_responsive(writer: Writer) -> bool:
    """Whether a writer can begin a transaction of its study, in time."""
    if not writer.is_alive:
        return False
    try:
        await asyncio.wait_for(writer.submit(lambda study: study.version), READINESS_TIMEOUT)
    except (TimeoutError, CausalBanditsError):
        return False
    return True


async def metrics(context: ServiceContext, request: Request) -> PlainTextResponse:
    """Counts of every study and its writer, as Prometheus reads them."""
    text = await format_metrics(context.accessible_writers(request))
    return PlainTextResponse(text, media_type=PROMETHEUS_MEDIA_TYPE)


async def openapi(context: ServiceContext, request: Request) -> JSONRecord:
    """This interface, for tools."""
    return dict(context.openapi)
