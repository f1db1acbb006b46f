"""Every way in for programs, with the role that it needs and what it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request

from causalbandits.service import commands
from causalbandits.service import queries as looking
from causalbandits.service.auth import Role
from causalbandits.service.http import Answer
from causalbandits.service.schemas import (
    AskRequest,
    CorrectRequest,
    CreateStudyRequest,
    DecisionResponse,
    DecisionsResponse,
    EventsResponse,
    EvidenceRequest,
    ExpireResponse,
    JSONRecord,
    ModesResponse,
    OutcomesResponse,
    PolicyResponse,
    ReadinessResponse,
    RecommendEachRequest,
    RecommendRequest,
    SetModeRequest,
    SetPolicyRequest,
    StatisticsResponse,
    StatusResponse,
    StudiesResponse,
    StudyResponse,
    TellRequest,
    VerifyResponse,
)
from causalbandits.service.workers import Writer

if TYPE_CHECKING:
    from causalbandits.service.app import Service

Handler = Callable[["Service", Writer, Request], Awaitable[Answer]]


class HTTPRoute(NamedTuple):
    """One way in."""

    method: str
    path: str
    role: Role | None
    """None: open to everybody."""
    handler: Handler
    request_schema: type | None = None
    response_schemas: tuple[Any, ...] = ()
    """One of these, with this status; refusals have others."""
    status: int = 200
    queries: tuple[str, ...] = ()
    """What may stand behind ?, all of it optional."""

    @property
    def summary(self) -> str:
        """What it is for."""
        return (self.handler.__doc__ or "").strip()


STUDY_ROUTE, DECISION_ROUTE = "/v1/studies/{study}", "/v1/studies/{study}/decisions/{decision}"
ID_QUERIES = ("key", "number")

ROUTES: tuple[HTTPRoute, ...] = (
    HTTPRoute("GET", "/livez", None, looking.alive, response_schemas=(StatusResponse,)),
    HTTPRoute("GET", "/readyz", None, looking.ready, response_schemas=(ReadinessResponse,)),
    HTTPRoute("GET", "/openapi.json", None, looking.openapi, response_schemas=(JSONRecord,)),
    HTTPRoute("GET", "/metrics", "reader", looking.metrics, response_schemas=(str,)),
    HTTPRoute("GET", "/v1/studies", "reader", looking.studies, response_schemas=(StudiesResponse,)),
    HTTPRoute(
        "POST",
        "/v1/studies",
        "admin",
        commands.create,
        CreateStudyRequest,
        response_schemas=(StudyResponse,),
        status=201,
    ),
    HTTPRoute("GET", STUDY_ROUTE, "reader", looking.describe, response_schemas=(JSONRecord,)),
    HTTPRoute(
        "POST",
        f"{STUDY_ROUTE}/decisions",
        "writer",
        commands.ask,
        AskRequest,
        response_schemas=(DecisionResponse, DecisionsResponse),
        status=201,
    ),
    HTTPRoute(
        "POST", f"{STUDY_ROUTE}/outcomes", "writer", commands.tell, TellRequest, response_schemas=(OutcomesResponse,)
    ),
    HTTPRoute("GET", f"{STUDY_ROUTE}/report", "reader", looking.report, response_schemas=(JSONRecord,)),
    HTTPRoute(
        "POST",
        f"{STUDY_ROUTE}/recommendation",
        "reader",
        looking.recommend,
        RecommendRequest,
        response_schemas=(JSONRecord,),
    ),
    HTTPRoute(
        "POST",
        f"{STUDY_ROUTE}/recommendations",
        "reader",
        looking.recommend_each,
        RecommendEachRequest,
        response_schemas=(JSONRecord,),
    ),
    HTTPRoute(
        "POST", f"{STUDY_ROUTE}/evidence", "admin", looking.evidence, EvidenceRequest, response_schemas=(JSONRecord,)
    ),
    HTTPRoute("GET", f"{STUDY_ROUTE}/statistics", "reader", looking.statistics, response_schemas=(StatisticsResponse,)),
    HTTPRoute(
        "GET", f"{STUDY_ROUTE}/events", "reader", looking.events, response_schemas=(EventsResponse,), queries=("after",)
    ),
    HTTPRoute("GET", f"{STUDY_ROUTE}/mode", "reader", looking.modes, response_schemas=(ModesResponse,)),
    HTTPRoute(
        "POST", f"{STUDY_ROUTE}/mode", "admin", commands.set_mode, SetModeRequest, response_schemas=(ModesResponse,)
    ),
    HTTPRoute(
        "POST", f"{STUDY_ROUTE}/policy", "admin", commands.use, SetPolicyRequest, response_schemas=(PolicyResponse,)
    ),
    HTTPRoute("POST", f"{STUDY_ROUTE}/expire", "writer", commands.expire, response_schemas=(ExpireResponse,)),
    HTTPRoute("POST", f"{STUDY_ROUTE}/verify", "admin", looking.verify, response_schemas=(VerifyResponse,)),
    HTTPRoute("GET", DECISION_ROUTE, "reader", looking.explain, response_schemas=(JSONRecord,), queries=ID_QUERIES),
    HTTPRoute(
        "POST",
        f"{DECISION_ROUTE}/correct",
        "admin",
        commands.correct,
        CorrectRequest,
        response_schemas=(StatusResponse,),
        queries=ID_QUERIES,
    ),
    HTTPRoute(
        "POST",
        f"{DECISION_ROUTE}/retract",
        "admin",
        commands.retract,
        response_schemas=(StatusResponse,),
        queries=ID_QUERIES,
    ),
    HTTPRoute(
        "POST",
        f"{DECISION_ROUTE}/forget",
        "writer",
        commands.forget,
        response_schemas=(StatusResponse,),
        queries=ID_QUERIES,
    ),
)
