"""The routes: the API for programs (`ROUTES`) and the pages (`PAGES`), each with its handler and its required role."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import UnionType
from typing import Any, Concatenate, NamedTuple, get_args, get_type_hints

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from causalbandits.service import commands, dashboard, queries
from causalbandits.service.auth import Role
from causalbandits.service.group_commit import Writer
from causalbandits.service.http import PAGE_PARAMETERS, ServiceContext
from causalbandits.service.records import (
    ChangesRecord,
    EarlyOutcomePage,
    EventPage,
    EvidenceRecord,
    ExplanationRecord,
    ModeItem,
    ModePage,
    OpenAPIDocument,
    PolicyPage,
    RecommendationRecord,
    RecommendationsRecord,
    RemovedOutcomePage,
    ReportRecord,
    StatisticPage,
    StructureRecord,
    StudyDescription,
    StudyPage,
)
from causalbandits.service.schemas import (
    AskRequest,
    CorrectRequest,
    CreateStudyRequest,
    EvidenceRequest,
    RankActionsRequest,
    RawTellRequest,
    RecommendEachRequest,
    RecommendRequest,
    ReportChangeRequest,
    SetModeRequest,
    SetPolicyRequest,
    TellRequest,
)

ServiceHandler = Callable[Concatenate[ServiceContext, Request, ...], Awaitable[Any]]
StudyHandler = Callable[Concatenate[Writer, Request, ...], Awaitable[Any]]
"""A handler is called with the study's writer if the path names a study, otherwise with the context; and with the
decoded body."""

PageHandler = Callable[Concatenate[ServiceContext, Request, ...], Awaitable[Response]]
"""The handler of a page is called with the decoded form, if there is one."""


class HTTPRoute(NamedTuple):
    """An operation of the API for programs."""

    method: str
    path: str
    role: Role | None
    """The required role; None means any client."""
    handler: ServiceHandler | StudyHandler
    request_schema: type | None = None
    """The schema of the body; None if the body is not read."""
    decoded_as: type | None = None
    """The schema that decodes the body, if it differs from the documented one."""
    status: int = 200
    """The status of a response without an error."""
    query_parameters: tuple[str, ...] = ()
    """The query parameters, all of them optional."""
    record: Any = None
    """The type of the response, if the handler returns a record."""
    change: str | None = None
    """The name in the log of a change by an admin, which is logged with the name of the key."""

    @property
    def response_schemas(self) -> tuple[Any, ...]:
        """The types of a response without an error, by the handler's annotation; `str` is text, others are encoded."""
        if self.record is not None:
            return (self.record,)
        returned = get_type_hints(self.handler)["return"]
        types = get_args(returned) if isinstance(returned, UnionType) else (returned,)
        return tuple(str if kind is PlainTextResponse else kind for kind in types if kind is not Response)

    @property
    def summary(self) -> str:
        """The summary of the operation: its handler's docstring."""
        return inspect.getdoc(self.handler) or ""


class PageRoute(NamedTuple):
    """A page of the dashboard, or a form on one."""

    method: str
    path: str
    role: Role | None
    """The required role; None means any client."""
    handler: PageHandler
    change: str | None = None
    """The name in the log of a change by an admin, as for an operation."""


STUDY_ROUTE, DECISION_ROUTE = "/v1/studies/{study}", "/v1/studies/{study}/decisions/{decision}"
ID_PARAMETERS = ("key", "number")

ROUTES: tuple[HTTPRoute, ...] = (
    HTTPRoute("GET", "/livez", None, queries.alive),
    HTTPRoute("GET", "/readyz", None, queries.ready),
    HTTPRoute("GET", "/openapi.json", None, queries.openapi, record=OpenAPIDocument),
    HTTPRoute("GET", "/metrics", "reader", queries.metrics),
    HTTPRoute("GET", "/v1/studies", "reader", queries.studies, query_parameters=PAGE_PARAMETERS, record=StudyPage),
    HTTPRoute("POST", "/v1/studies", "admin", commands.create, CreateStudyRequest, status=201, change="create"),
    HTTPRoute("GET", STUDY_ROUTE, "reader", queries.describe, record=StudyDescription),
    HTTPRoute("POST", f"{STUDY_ROUTE}/decisions", "writer", commands.ask, AskRequest, status=201),
    HTTPRoute("POST", f"{STUDY_ROUTE}/outcomes", "writer", commands.tell, TellRequest, RawTellRequest),
    HTTPRoute("GET", f"{STUDY_ROUTE}/report", "reader", queries.report, record=ReportRecord),
    HTTPRoute(
        "POST",
        f"{STUDY_ROUTE}/recommendation",
        "reader",
        queries.recommend,
        RecommendRequest,
        record=RecommendationRecord,
    ),
    HTTPRoute("POST", f"{STUDY_ROUTE}/actions", "reader", queries.rank_actions, RankActionsRequest),
    HTTPRoute(
        "POST",
        f"{STUDY_ROUTE}/recommendations",
        "reader",
        queries.recommend_each,
        RecommendEachRequest,
        record=RecommendationsRecord,
    ),
    HTTPRoute("POST", f"{STUDY_ROUTE}/evidence", "admin", queries.evidence, EvidenceRequest, record=EvidenceRecord),
    HTTPRoute("GET", f"{STUDY_ROUTE}/structure", "reader", queries.structure, record=StructureRecord),
    HTTPRoute("GET", f"{STUDY_ROUTE}/changes", "reader", queries.changes, record=ChangesRecord),
    HTTPRoute("POST", f"{STUDY_ROUTE}/changes", "admin", commands.report_change, ReportChangeRequest, change="changed"),
    HTTPRoute(
        "GET",
        f"{STUDY_ROUTE}/statistics",
        "reader",
        queries.statistics,
        query_parameters=PAGE_PARAMETERS,
        record=StatisticPage,
    ),
    HTTPRoute(
        "GET", f"{STUDY_ROUTE}/events", "reader", queries.events, query_parameters=PAGE_PARAMETERS, record=EventPage
    ),
    HTTPRoute(
        "GET",
        f"{STUDY_ROUTE}/early-outcomes",
        "reader",
        queries.early_outcomes,
        query_parameters=PAGE_PARAMETERS,
        record=EarlyOutcomePage,
    ),
    HTTPRoute(
        "GET",
        f"{STUDY_ROUTE}/removed-outcomes",
        "reader",
        queries.removed_outcomes,
        query_parameters=PAGE_PARAMETERS,
        record=RemovedOutcomePage,
    ),
    HTTPRoute("GET", f"{STUDY_ROUTE}/mode", "reader", queries.modes, query_parameters=PAGE_PARAMETERS, record=ModePage),
    HTTPRoute(
        "POST", f"{STUDY_ROUTE}/mode", "admin", commands.set_mode, SetModeRequest, record=ModeItem, change="mode"
    ),
    HTTPRoute(
        "GET", f"{STUDY_ROUTE}/policy", "reader", queries.policies, query_parameters=PAGE_PARAMETERS, record=PolicyPage
    ),
    HTTPRoute("POST", f"{STUDY_ROUTE}/policy", "admin", commands.use, SetPolicyRequest, change="policy"),
    HTTPRoute("POST", f"{STUDY_ROUTE}/expire", "writer", commands.expire),
    HTTPRoute("POST", f"{STUDY_ROUTE}/verify", "admin", queries.verify),
    HTTPRoute(
        "GET", DECISION_ROUTE, "reader", queries.explain, query_parameters=ID_PARAMETERS, record=ExplanationRecord
    ),
    HTTPRoute(
        "POST",
        f"{DECISION_ROUTE}/correct",
        "admin",
        commands.correct,
        CorrectRequest,
        query_parameters=ID_PARAMETERS,
        change="correct",
    ),
    HTTPRoute(
        "POST", f"{DECISION_ROUTE}/retract", "admin", commands.retract, query_parameters=ID_PARAMETERS, change="retract"
    ),
    HTTPRoute("POST", f"{DECISION_ROUTE}/cancel", "writer", commands.cancel, query_parameters=ID_PARAMETERS),
)

PAGES: tuple[PageRoute, ...] = (
    PageRoute("GET", "/", "reader", dashboard.list_studies),
    PageRoute("GET", "/login", None, dashboard.show_login),
    PageRoute("POST", "/login", None, dashboard.log_in),
    PageRoute("GET", "/problems", None, dashboard.list_problem_types),
    PageRoute("GET", "/problems/{name}", None, dashboard.show_problem_type),
    PageRoute("GET", "/{study}", "reader", dashboard.show_study),
    PageRoute("GET", "/{study}/decision", "reader", dashboard.show_decision),
    PageRoute("GET", "/{study}/what-if", "reader", dashboard.what_if),
    PageRoute("POST", "/{study}/mode", "admin", dashboard.set_mode, "mode"),
    PageRoute("GET", "/{study}/live", "reader", dashboard.stream_changes),
)
