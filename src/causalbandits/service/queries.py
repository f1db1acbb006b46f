"""Read-only handlers, which do not use the writer."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from causalbandits.errors import (
    CausalBanditsError,
    ConflictError,
    InterventionError,
    PolicyError,
    ProblemError,
    StorageError,
)
from causalbandits.service.group_commit import LastVerification, Writer
from causalbandits.service.http import (
    MAX_ITEMS,
    MAX_RECOMMENDED_CONTEXTS,
    ServiceContext,
    encode_cursor,
    find_decision,
    number_cursor,
    page,
    page_after,
    page_limit,
    text_cursor,
)
from causalbandits.service.metrics import PROMETHEUS_MEDIA_TYPE, format_metrics
from causalbandits.service.problems import FieldsError, RequestError, request_terms
from causalbandits.service.request_errors import argument_errors, assignment_refusal
from causalbandits.service.schemas import (
    ActionsResponse,
    EvidenceRequest,
    FieldError,
    JSONRecord,
    RankActionsRequest,
    ReadinessResponse,
    RecommendEachRequest,
    RecommendRequest,
    StatusResponse,
    VerifyResponse,
)
from causalbandits.service.telemetry import logger
from causalbandits.study import Study, probe_write
from causalbandits.study.analysis import statistic_key
from causalbandits.study.remote import (
    encode_action_table,
    encode_changes,
    encode_evidence,
    encode_recommendation,
    encode_recommendations,
    encode_structure,
)

READINESS_TIMEOUT = 5.0
"""Seconds after which a study whose writer does not respond is not ready."""


async def modes(writer: Writer, request: Request) -> JSONRecord:
    """The modes of a study over time, with the user and the reason of each change."""
    limit, after = page_limit(request), number_cursor(request)
    records = [record for record in await writer.reader.read(lambda study: study.modes()) if record["version"] > after]
    return page(request, records, limit, lambda record: record["version"])


async def policies(writer: Writer, request: Request) -> JSONRecord:
    """The policies of a study over time, with the user of each change."""
    limit, after = page_limit(request), number_cursor(request)
    records = await writer.reader.read(lambda study: study.policies())
    remaining = [record for record in records if record["version"] > after]
    return page(request, remaining, limit, lambda record: record["version"])


async def studies(context: ServiceContext, request: Request) -> JSONRecord:
    """List the studies of the service."""
    items = [{"study": name} for name in context.accessible_writers(request)]
    return page_after(request, items, lambda item: item["study"])


async def describe(writer: Writer, request: Request) -> JSONRecord:
    """Describe a study: its problem, its policy and its rules."""
    return await writer.reader.read(lambda study: study.description())


async def recommend(writer: Writer, request: Request, body: RecommendRequest) -> JSONRecord:
    """The best action so far, with its interval, the probability of being best and the stopping rule."""
    arguments = msgspec.structs.asdict(body)

    def work(study: Study) -> JSONRecord:
        try:
            return encode_recommendation(study.recommend(**arguments))
        except (InterventionError, ProblemError) as error:
            problem = study.problem
            raise assignment_refusal(problem, problem.context, body.context or {}, "/context", error) from None
        except CausalBanditsError as error:
            raise _refusal(body, error) from None

    return await writer.reader.read(work)


def _refusal(body: msgspec.Struct, error: CausalBanditsError) -> CausalBanditsError:
    """An error, with the request fields that its message names."""
    if isinstance(error, StorageError):
        return error
    return FieldsError(error, argument_errors(msgspec.structs.asdict(body), error))


def _page_error(field: str, detail: str) -> FieldsError:
    return FieldsError(CausalBanditsError(detail), [FieldError(f"/{field}", detail)])


async def rank_actions(writer: Writer, request: Request, body: RankActionsRequest) -> ActionsResponse:
    """All actions, ranked, each with its mean, interval, probability of being best and number of times chosen."""
    if not 1 <= body.limit <= MAX_ITEMS:
        raise _page_error("limit", f"limit must be between 1 and {MAX_ITEMS}; got {body.limit}.")
    if body.offset < 0:
        raise _page_error("offset", f"offset must be 0 or more; got {body.offset}.")

    def work(study: Study) -> Any:
        problem = study.problem
        try:
            recommendation = study.recommend(context=body.context, confidence=body.confidence, tolerance=body.tolerance)
            return encode_action_table(recommendation.table(limit=body.limit, offset=body.offset))
        except (InterventionError, ProblemError) as error:
            raise assignment_refusal(problem, problem.context, body.context or {}, "/context", error) from None
        except CausalBanditsError as error:
            raise _refusal(body, error) from None

    record = await writer.reader.read(work)
    return msgspec.convert({**record, "limit": body.limit, "offset": body.offset}, ActionsResponse)


async def recommend_each(writer: Writer, request: Request, body: RecommendEachRequest) -> JSONRecord:
    """The best action so far in each context, for at most 100 contexts, the most probable ones."""
    limit = MAX_RECOMMENDED_CONTEXTS if body.limit is None else max(0, min(MAX_RECOMMENDED_CONTEXTS, body.limit))

    def work(study: Study) -> Any:
        try:
            recommendations = study.recommendations(confidence=body.confidence, tolerance=body.tolerance, limit=limit)
        except CausalBanditsError as error:
            raise _refusal(body, error) from None
        return encode_recommendations(recommendations)

    return await writer.reader.read(work)


async def evidence(writer: Writer, request: Request, body: EvidenceRequest) -> JSONRecord:
    """Anytime-valid misspecification tests of the model, by e-values; reads every outcome."""

    def work(study: Study) -> JSONRecord:
        try:
            return encode_evidence(study.evidence(alpha=body.alpha))
        except CausalBanditsError as error:
            raise _refusal(body, error) from None

    return await writer.scanner.read(work)


async def structure(writer: Writer, request: Request) -> JSONRecord:
    """The causal structure learned so far, if the problem has no graph: probabilities of edges and of parent sets."""

    def work(study: Study) -> JSONRecord:
        try:
            return encode_structure(study.structure())
        except PolicyError as error:
            raise FieldsError(error, [], "structure-not-learned") from None

    return await writer.reader.read(work)


async def changes(writer: Writer, request: Request) -> JSONRecord:
    """The changes of mechanisms so far, detected or reported, and the evidence for further ones."""
    return await writer.reader.read(lambda study: encode_changes(study.changes()))


async def report(writer: Writer, request: Request) -> JSONRecord:
    """The report of a study: counts, and means by action and by configuration."""
    return await writer.reader.read(lambda study: study.report().to_record())


async def statistics(writer: Writer, request: Request) -> JSONRecord:
    """The sufficient statistic: a line for each context, action and configuration that occurred, in a fixed order."""
    lines = await writer.scanner.read(lambda study: sorted(study.lines(limit=sys.maxsize), key=statistic_key))
    return page_after(request, lines, statistic_key)


async def explain(writer: Writer, request: Request) -> JSONRecord:
    """Explain a decision: its request, action probabilities, outcome, and whether its replay gives the same action."""
    return await writer.scanner.read(lambda study: study.explain(find_decision(study, request)))


async def events(writer: Writer, request: Request) -> JSONRecord:
    """Events in the order of the log. The cursor is the id of an event, so that a client can follow a study."""
    limit, text = page_limit(request), request.query_params.get("cursor", "0")
    after = text if text.startswith("e") else number_cursor(request)

    def work(study: Study) -> list[dict[str, Any]]:
        try:
            return study.events(after, limit + 1)
        except (StorageError, ConflictError):
            raise
        except CausalBanditsError as error:
            raise FieldsError(error, [FieldError(None, request_terms(str(error)), "cursor")]) from None

    return page(request, await writer.reader.read(work), limit, lambda record: record["id"])


async def early_outcomes(writer: Writer, request: Request) -> JSONRecord:
    """Outcomes that arrived before their decision and are stored. `retract` by `key` removes one."""
    limit, after = page_limit(request), text_cursor(request)
    outcomes = await writer.reader.read(lambda study: study.early_outcomes(after, limit + 1))
    records = [outcome._asdict() for outcome in outcomes]
    for record in records:
        record["why"] = record["why"] and request_terms(record["why"])
    return page(request, records, limit, lambda record: encode_cursor(record["key"]))


async def removed_outcomes(writer: Writer, request: Request) -> JSONRecord:
    """Outcomes that `retract` removed before their decision was made, when, and by whom, in the order of removal."""
    limit, after = page_limit(request), number_cursor(request)
    outcomes = await writer.reader.read(lambda study: study.removed_outcomes(after, limit + 1))
    return page(request, [outcome._asdict() for outcome in outcomes], limit, lambda record: record["number"])


async def verify(writer: Writer, request: Request) -> VerifyResponse:
    """Replay the event log, and compare the result with the stored state, bit for bit."""
    verification = await writer.verifier.read(lambda study: study.verify())
    writer.last_verification = LastVerification(time.time(), verification)
    return VerifyResponse(
        bool(verification), verification.decisions, verification.events, list(verification.differences)
    )


async def alive(context: ServiceContext, request: Request) -> StatusResponse:
    """Liveness: the process runs. No database is queried."""
    return StatusResponse("ok")


async def ready(context: ServiceContext, request: Request) -> ReadinessResponse:
    """Readiness: every opened study can decide and write, keys can be verified, and the service is not stopping.

    Studies that could not be opened or are damaged are in `unavailable`; the others are served.
    """
    if context.draining.is_set():
        raise RequestError("not-ready", "The service is stopping.")
    if context.keys.are_missing():
        raise RequestError(
            "not-ready", ("The file of keys is missing. The service accepts no key until the file is restored.")
        )
    unavailable = await context.readiness.latest(lambda: _unavailable_studies(context))
    if unavailable:
        raise RequestError("not-ready", f"Studies that cannot be written: {', '.join(unavailable):.500}.")
    damaged = [name for name, writer in dict(context.writers).items() if writer.damage]
    return ReadinessResponse("ready", sorted({*context.unavailable, *damaged}))


async def _unavailable_studies(context: ServiceContext) -> list[str]:
    """The names of studies that are not writable."""
    writers = dict(context.writers)
    responses = await asyncio.gather(*map(_is_responsive, writers.values()))
    unavailable = [name for name, is_responsive in zip(writers, responses, strict=True) if not is_responsive]
    if unavailable != context.readiness.unavailable:
        context.readiness.unavailable = unavailable
        _log_readiness(unavailable)
    return unavailable


def _log_readiness(unavailable: list[str]) -> None:
    """Log a line whenever the set of unwritable studies changes."""
    fields = {"event": "not_ready" if unavailable else "ready", "studies": unavailable}
    if unavailable:
        logger.error("Not ready: studies cannot be written: %s", ", ".join(unavailable), extra={"fields": fields})
    else:
        logger.warning("Ready again: all studies can be written", extra={"fields": fields})


async def _is_responsive(writer: Writer) -> bool:
    """Whether the writer of a study responds in time."""
    if not writer.is_alive:
        return False
    try:
        await asyncio.wait_for(writer.submit(probe_write), READINESS_TIMEOUT)
    except (TimeoutError, CausalBanditsError):
        return False
    return True


async def metrics(context: ServiceContext, request: Request) -> PlainTextResponse:
    """Metrics of studies, writers and requests in Prometheus' text format."""
    text = await format_metrics(context.accessible_writers(request), context.requests)
    return PlainTextResponse(text, media_type=PROMETHEUS_MEDIA_TYPE)


async def openapi(context: ServiceContext, request: Request) -> Response:
    """The OpenAPI document of this interface."""
    return Response(context.openapi, media_type="application/json")
