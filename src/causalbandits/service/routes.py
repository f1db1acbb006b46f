"""The routes: for programs (`ROUTES`) and for people (`PAGES`), each with its handler and the role that it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from causalbandits.service import commands, dashboard, queries
from causalbandits.service.auth import Role
from causalbandits.service.http import Answer, ServiceContext
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

ServiceHandler = Callable[[ServiceContext, Request], Awaitable[Answer]]
StudyHandler = Callable[[Writer, Request], Awaitable[Answer]]
"""Handlers of paths that name a study are given its writer, the others the context."""

PageHandler = Callable[[ServiceContext, Request], Awaitable[Response]]


class HTTPRoute(NamedTuple):
    """An operation of the interface for programs."""

    method: str
    path: str
    role: Role | None
    """None: anybody."""
    handler: ServiceHandler | StudyHandler
    request_schema: type | None = None
    response_schemas: tuple[Any, ...] = ()
    """One of these, with this status; refusals have others."""
    status: int = 200
    query_parameters: tuple[str, ...] = ()
    """All of them optional."""

    @property
    def summary(self) -> str:
        """What it is for."""
        return (self.handler.__doc__ or "").strip()


class PageRoute(NamedTuple):
    """A page of the dashboard, or a form on one."""

    method: str
    path: str
    role: Role | None
    """None: anybody."""
    handler: PageHandler


STUDY_ROUTE, DECISION_ROUTE = "/v1/studies/{study}", "/v1/studies/{study}/decisions/{decision}"
ID_PARAMETERS = ("key", "number")

ROUTES: tuple[HTTPRoute, ...] = (
    HTTPRoute("GET", "/livez", None, queries.alive, response_schemas=(StatusResponse,)),
    HTTPRoute("GET", "/readyz", None, queries.ready, response_schemas=(ReadinessResponse,)),
    HTTPRoute("GET", "/openapi.json", None, queries.openapi, response_schemas=(JSONRecord,)),
    HTTPRoute("GET", "/metrics", "reader", queries.metrics, response_schemas=(str,)),
    HTTPRoute("GET", "/v1/studies", "reader", queries.studies, response_schemas=(StudiesResponse,)),
    HTTPRoute(
        "POST",
        "/v1/studies",
        "admin",
        commands.create,
        CreateStudyRequest,
        response_schemas=(StudyResponse,),
        status=201,
    ),
    HTTPRoute("GET", STUDY_ROUTE, "reader", queries.describe, response_schemas=(JSONRecord,)),
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
    HTTPRoute("GET", f"{STUDY_ROUTE}/report", "reader", queries.report, response_schemas=(JSONRecord,)),
    HTTPRoute(
        "POST",
        f"{STUDY_ROUTE}/recommendation",
        "reader",
        queries.recommend,
        RecommendRequest,
        response_schemas=(JSONRecord,),
    ),
    HTTPRoute(
        "POST",
        f"{STUDY_ROUTE}/recommendations",
        "reader",
        queries.recommend_each,
        RecommendEachRequest,
        response_schemas=(JSONRecord,),
    ),
    HTTPRoute(
        "POST", f"{STUDY_ROUTE}/evidence", "admin", queries.evidence, EvidenceRequest, response_schemas=(JSONRecord,)
    ),
    HTTPRoute("GET", f"{STUDY_ROUTE}/statistics", "reader", queries.statistics, response_schemas=(StatisticsResponse,)),
    HTTPRoute(
        "GET",
        f"{STUDY_ROUTE}/events",
        "reader",
        queries.events,
        response_schemas=(EventsResponse,),
        query_parameters=("after",),
    ),
    HTTPRoute("GET", f"{STUDY_ROUTE}/mode", "reader", queries.modes, response_schemas=(ModesResponse,)),
    HTTPRoute(
        "POST", f"{STUDY_ROUTE}/mode", "admin", commands.set_mode, SetModeRequest, response_schemas=(ModesResponse,)
    ),
    HTTPRoute(
        "POST", f"{STUDY_ROUTE}/policy", "admin", commands.use, SetPolicyRequest, response_schemas=(PolicyResponse,)
    ),
    HTTPRoute("POST", f"{STUDY_ROUTE}/expire", "writer", commands.expire, response_schemas=(ExpireResponse,)),
    HTTPRoute("POST", f"{STUDY_ROUTE}/verify", "admin", queries.verify, response_schemas=(VerifyResponse,)),
    HTTPRoute(
        "GET", DECISION_ROUTE, "reader", queries.explain, response_schemas=(JSONRecord,), query_parameters=ID_PARAMETERS
    ),
    HTTPRoute(
        "POST",
        f"{DECISION_ROUTE}/correct",
        "admin",
        commands.correct,
        CorrectRequest,
        response_schemas=(StatusResponse,),
        query_parameters=ID_PARAMETERS,
    ),
    HTTPRoute(
        "POST",
        f"{DECISION_ROUTE}/retract",
        "admin",
        commands.retract,
        response_schemas=(StatusResponse,),
        query_parameters=ID_PARAMETERS,
    ),
    HTTPRoute(
        "POST",
        f"{DECISION_ROUTE}/forget",
        "writer",
        commands.forget,
        response_schemas=(StatusResponse,),
        query_parameters=ID_PARAMETERS,
    ),
)

PAGES: tuple[PageRoute, ...] = (
    PageRoute("GET", "/", "reader", dashboard.list_studies),
    PageRoute("GET", "/login", None, dashboard.show_login),
    PageRoute("POST", "/login", None, dashboard.log_in),
    PageRoute("GET", "/{study}", "reader", dashboard.show_study),
    PageRoute("GET", "/{study}/decision", "reader", dashboard.show_decision),
    PageRoute("GET", "/{study}/what-if", "reader", dashboard.what_if),
    PageRoute("POST", "/{study}/mode", "admin", dashboard.set_mode),
    PageRoute("GET", "/{study}/live", "reader", dashboard.stream_changes),
)
