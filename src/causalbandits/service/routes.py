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
    Corrected,
    DecisionMade,
    DecisionsMade,
    DecisionWanted,
    Done,
    EvidenceWanted,
    Expired,
    KeptRecord,
    LogVerified,
    Modes,
    ModeWanted,
    OutcomeReceipts,
    OutcomesTold,
    PolicyTaken,
    PolicyWanted,
    Readiness,
    RecommendationsWanted,
    RecommendationWanted,
    StatisticLines,
    StudiesServed,
    StudyEvents,
    StudyMade,
    StudyWanted,
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
    takes: type | None = None
    gives: tuple[Any, ...] = ()
    """One of these, with this status; refusals have others."""
    status: int = 200
    queries: tuple[str, ...] = ()
    """What may stand behind ?, all of it optional."""

    @property
    def says(self) -> str:
        """What it is for."""
        return (self.handler.__doc__ or "").strip()


STUDY, DECISION = "/v1/studies/{study}", "/v1/studies/{study}/decisions/{decision}"
BY = ("key", "number")

ROUTES: tuple[HTTPRoute, ...] = (
    HTTPRoute("GET", "/livez", None, looking.alive, gives=(Done,)),
    HTTPRoute("GET", "/readyz", None, looking.ready, gives=(Readiness,)),
    HTTPRoute("GET", "/openapi.json", None, looking.openapi, gives=(KeptRecord,)),
    HTTPRoute("GET", "/metrics", "reader", looking.metrics, gives=(str,)),
    HTTPRoute("GET", "/v1/studies", "reader", looking.studies, gives=(StudiesServed,)),
    HTTPRoute("POST", "/v1/studies", "admin", commands.create, StudyWanted, gives=(StudyMade,), status=201),
    HTTPRoute("GET", STUDY, "reader", looking.describe, gives=(KeptRecord,)),
    HTTPRoute(
        "POST",
        f"{STUDY}/decisions",
        "writer",
        commands.ask,
        DecisionWanted,
        gives=(DecisionMade, DecisionsMade),
        status=201,
    ),
    HTTPRoute("POST", f"{STUDY}/outcomes", "writer", commands.tell, OutcomesTold, gives=(OutcomeReceipts,)),
    HTTPRoute("GET", f"{STUDY}/report", "reader", looking.report, gives=(KeptRecord,)),
    HTTPRoute(
        "POST", f"{STUDY}/recommendation", "reader", looking.recommend, RecommendationWanted, gives=(KeptRecord,)
    ),
    HTTPRoute(
        "POST", f"{STUDY}/recommendations", "reader", looking.recommend_each, RecommendationsWanted, gives=(KeptRecord,)
    ),
    HTTPRoute("POST", f"{STUDY}/evidence", "admin", looking.evidence, EvidenceWanted, gives=(KeptRecord,)),
    HTTPRoute("GET", f"{STUDY}/statistics", "reader", looking.statistics, gives=(StatisticLines,)),
    HTTPRoute("GET", f"{STUDY}/events", "reader", looking.events, gives=(StudyEvents,), queries=("after",)),
    HTTPRoute("GET", f"{STUDY}/mode", "reader", looking.modes, gives=(Modes,)),
    HTTPRoute("POST", f"{STUDY}/mode", "admin", commands.set_mode, ModeWanted, gives=(Modes,)),
    HTTPRoute("POST", f"{STUDY}/policy", "admin", commands.use, PolicyWanted, gives=(PolicyTaken,)),
    HTTPRoute("POST", f"{STUDY}/expire", "writer", commands.expire, gives=(Expired,)),
    HTTPRoute("POST", f"{STUDY}/verify", "admin", looking.verify, gives=(LogVerified,)),
    HTTPRoute("GET", DECISION, "reader", looking.explain, gives=(KeptRecord,), queries=BY),
    HTTPRoute("POST", f"{DECISION}/correct", "admin", commands.correct, Corrected, gives=(Done,), queries=BY),
    HTTPRoute("POST", f"{DECISION}/retract", "admin", commands.retract, gives=(Done,), queries=BY),
    HTTPRoute("POST", f"{DECISION}/forget", "writer", commands.forget, gives=(Done,), queries=BY),
)
