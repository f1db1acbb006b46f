"""Errors over HTTP: the types of problem details (RFC 9457), and the library's messages in terms of the request.

Each type is a URI reference, `/problems/{name}`, at which the service documents it. The library's errors use terms of
Python (arguments, None, calls); HTTP clients know fields and JSON only, so messages are rewritten here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from causalbandits.errors import CausalBanditsError
from causalbandits.service.schemas import FieldError, ProblemDetails
from causalbandits.study.remote import ERRORS_BY_PROBLEM_TYPE, OPERATION, PROBLEM_TYPE_PREFIX

MAX_FIELD_ERRORS = 20
"""The maximum number of reported field errors of a request."""


class ProblemType(NamedTuple):
    """A kind of error, as documented on its page."""

    name: str
    status: int
    title: str
    meaning: str
    executed: str
    """Whether the request was executed."""
    remedy: str

    @property
    def uri(self) -> str:
        """The `type` of its problem details."""
        return f"{PROBLEM_TYPE_PREFIX}{self.name}"


_NOT_EXECUTED = "No. Nothing was changed."
_CORRECT_FIELDS = "Correct the fields that `errors` names and send the request again. The same request will fail again."
_TRY_AGAIN = "Send the same request again after the number of seconds in `Retry-After`, with the same `key`."

PROBLEM_TYPES = {
    kind.name: kind
    for kind in (
        ProblemType(
            "malformed-json",
            400,
            "The body is not JSON",
            "The body cannot be decoded: a syntax error, text that is not UTF-8, or nesting that is too deep.",
            _NOT_EXECUTED,
            "Send a JSON document in UTF-8. NaN and Infinity are not JSON.",
        ),
        ProblemType(
            "authentication-required",
            401,
            "A key is required",
            "The request has no key, or an unknown key (mistyped, revoked, or of another service).",
            _NOT_EXECUTED,
            "Send the header `Authorization: Bearer cb_...` with a key that `causalbandits study keys list` shows.",
        ),
        ProblemType(
            "forbidden",
            403,
            "The key does not allow this",
            "The key's role or studies do not allow the request, or the service does not offer the operation.",
            _NOT_EXECUTED,
            "Use a key with the role that the detail names, or ask the operator of the service for one.",
        ),
        ProblemType(
            "keys-unavailable",
            503,
            "Keys cannot be verified",
            "The service had keys, and the file of keys is missing. The service accepts no key until the file is "
            "restored.",
            _NOT_EXECUTED,
            "Inform the operator of the service. The operator can restore the file or create new keys.",
        ),
        ProblemType(
            "cross-site-request",
            403,
            "A page of another site sent the request",
            "A browser sent the request from a page of another site, according to the header `Sec-Fetch-Site` or "
            "`Origin`.",
            _NOT_EXECUTED,
            "Use a page of the service itself, or a program, which sends neither header. A proxy in front of the "
            "service should pass `Host` on.",
        ),
        ProblemType(
            "not-found",
            404,
            "The resource does not exist",
            "No route has this path.",
            _NOT_EXECUTED,
            "See `/openapi.json` for all paths.",
        ),
        ProblemType(
            "unknown-study",
            404,
            "The study does not exist",
            "The service does not serve a study of this name.",
            _NOT_EXECUTED,
            "`GET /v1/studies` lists the studies that the key may access.",
        ),
        ProblemType(
            "unknown-decision",
            404,
            "The decision does not exist",
            "No decision has this id, number or key.",
            _NOT_EXECUTED,
            "Check the id, number or key. After an older backup was restored, decisions made since are unknown.",
        ),
        ProblemType(
            "method-not-allowed",
            405,
            "The method is not allowed",
            "The path exists, but not with this method.",
            _NOT_EXECUTED,
            "Use one of the methods in the header `Allow`.",
        ),
        ProblemType(
            "conflict",
            409,
            "The request contradicts an earlier one",
            "A key was used for another request, an outcome differs from the stored outcome, a name is taken, or the "
            "event in `cursor` is not in the log because the study was restored from a copy.",
            "No. The earlier request remains in effect.",
            "Repeat the earlier request exactly, or use a new key. Change a stored outcome by `POST "
            ".../decisions/{decision}/correct`. Read the events again from the beginning.",
        ),
        ProblemType(
            "study-mode",
            409,
            "The study's mode does not allow this",
            "The study is paused or closed.",
            _NOT_EXECUTED,
            "Use your own default action until an admin sets another mode. A closed study stays closed.",
        ),
        ProblemType(
            "not-applicable",
            409,
            "The state of the decision or study does not allow this",
            "The operation does not apply: the decision has no outcome to correct, or the study has no attribution "
            "window.",
            _NOT_EXECUTED,
            "Look at the decision with `GET .../decisions/{decision}`, or at the study's rules with `GET .../{study}`.",
        ),
        ProblemType(
            "structure-not-learned",
            409,
            "No causal structure is learned",
            "The causal graph of the problem is given, or the study's policy does not learn the structure.",
            _NOT_EXECUTED,
            "Read the graph with `GET .../{study}`. To learn it, create a study of a problem without a graph.",
        ),
        ProblemType(
            "budget-exhausted",
            409,
            "The budget does not allow further decisions",
            "All rounds of the study's budget are used, or the rest does not cover any action.",
            _NOT_EXECUTED,
            "Use your own default action, and cancel decisions that were not carried out.",
        ),
        ProblemType(
            "too-large",
            413,
            "The request is too large",
            "The body has too many bytes, or a list has too many items.",
            _NOT_EXECUTED,
            "Send several smaller requests.",
        ),
        ProblemType(
            "unsupported-media-type",
            415,
            "The body must be JSON",
            "The header `Content-Type` is not `application/json`.",
            _NOT_EXECUTED,
            "Send `Content-Type: application/json`.",
        ),
        ProblemType(
            "invalid-value",
            422,
            "A value is not valid",
            "The body is JSON, but a field is missing, unknown, of the wrong type or out of range.",
            _NOT_EXECUTED,
            _CORRECT_FIELDS,
        ),
        ProblemType(
            "invalid-outcome",
            422,
            "The outcome is not valid",
            "The outcome does not fit the decision or the problem: a value, a reward out of range, or a contradiction.",
            _NOT_EXECUTED,
            _CORRECT_FIELDS,
        ),
        ProblemType(
            "unknown-variable",
            422,
            "A variable or value does not exist",
            "A context, an eligible action or a baseline names a variable or a value that the problem does not have.",
            _NOT_EXECUTED,
            _CORRECT_FIELDS,
        ),
        ProblemType(
            "invalid-action",
            422,
            "The action is not possible",
            "No action is eligible, or the action is not one of the problem's.",
            _NOT_EXECUTED,
            _CORRECT_FIELDS,
        ),
        ProblemType(
            "invalid-mode",
            422,
            "The mode is not valid",
            "The mode does not exist, or it does not allow the other fields.",
            _NOT_EXECUTED,
            _CORRECT_FIELDS,
        ),
        ProblemType(
            "invalid-policy",
            422,
            "The policy is not valid",
            "The policy or its option does not exist, or the policy cannot be used in this study.",
            _NOT_EXECUTED,
            _CORRECT_FIELDS,
        ),
        ProblemType(
            "invalid-problem",
            422,
            "The problem is not valid",
            "The fields of the problem contradict each other.",
            _NOT_EXECUTED,
            _CORRECT_FIELDS,
        ),
        ProblemType(
            "invalid-model",
            422,
            "The model is not valid",
            "A variable, a table or the graph of the problem is not valid.",
            _NOT_EXECUTED,
            _CORRECT_FIELDS,
        ),
        ProblemType(
            "invalid-budget",
            422,
            "The budget is not valid",
            "The budget is not possible with this problem, policy or rules.",
            _NOT_EXECUTED,
            _CORRECT_FIELDS,
        ),
        ProblemType(
            "invalid-setting",
            422,
            "A setting is not valid",
            "A rule of the study, a name or a key is not valid.",
            _NOT_EXECUTED,
            _CORRECT_FIELDS,
        ),
        ProblemType(
            "invalid-data",
            422,
            "Data do not fit the graph",
            "Data of the request do not have the variables or values of the graph.",
            _NOT_EXECUTED,
            _CORRECT_FIELDS,
        ),
        ProblemType(
            "not-identified",
            422,
            "The effect is not identified",
            "The effect cannot be computed from the observed variables with any amount of data.",
            _NOT_EXECUTED,
            "Observe or randomise the variables that the detail names.",
        ),
        ProblemType(
            "too-large-to-compute",
            422,
            "The problem is too large to compute this",
            "There are too many actions, contexts or configurations to be enumerated.",
            _NOT_EXECUTED,
            "Send a smaller request, for example for a single context.",
        ),
        ProblemType(
            "busy",
            429,
            "The queue is full",
            "The study's queue of requests has reached its limit.",
            _NOT_EXECUTED,
            _TRY_AGAIN,
        ),
        ProblemType(
            "too-many-requests",
            429,
            "Too many requests without a key",
            "This address has sent too many requests without a valid key. Requests with a valid key are not counted.",
            _NOT_EXECUTED,
            "Send a key. Otherwise send the same request again after the number of seconds in `Retry-After`.",
        ),
        ProblemType(
            "internal-error",
            500,
            "Internal error",
            "An error in the service. The service's log has the details under the request's id.",
            "Unknown.",
            "Send the same request again, with the same `key`; report the `request_id` to the operator.",
        ),
        ProblemType(
            "storage-unavailable",
            503,
            "The database is not available",
            "The disk is full, the database cannot be reached, or another process holds it.",
            "No. The transaction was rolled back.",
            _TRY_AGAIN,
        ),
        ProblemType(
            "not-ready",
            503,
            "The service is not ready",
            "A study is not writable, the file of keys is missing, or the service is stopping.",
            "The request only reads the state of the service.",
            "Route requests to another process until `GET /readyz` answers 200.",
        ),
    )
}

_TYPES_BY_ERROR = {error: name for name, error in ERRORS_BY_PROBLEM_TYPE.items()}


def problem_type_of(error: CausalBanditsError) -> ProblemType:
    """The problem type of a library error: that of its class, or of the nearest base class that has one."""
    for kind in type(error).__mro__:
        if kind in _TYPES_BY_ERROR:
            return PROBLEM_TYPES[_TYPES_BY_ERROR[kind]]
    raise AssertionError(type(error))


class RequestError(Exception):
    """A refused request, with its problem type."""

    def __init__(self, kind: str, detail: str, errors: list[FieldError] | None = None) -> None:
        super().__init__(detail)
        self.kind, self.errors = PROBLEM_TYPES[kind], errors or []


class FieldsError(CausalBanditsError):
    """A library error, with the fields of the request that caused it.

    It is a library error itself, so that the writer treats it as the result of one request, without effect on the
    others.
    """

    def __init__(self, error: CausalBanditsError, errors: list[FieldError], kind: str | None = None) -> None:
        super().__init__(str(error))
        self.errors = errors[:MAX_FIELD_ERRORS]
        self.kind = problem_type_of(error) if kind is None else PROBLEM_TYPES[kind]


def problem_of(error: Exception) -> ProblemDetails | None:
    """The problem details of an error; None for unexpected errors."""
    if isinstance(error, RequestError):
        return ProblemDetails(error.kind.uri, error.kind.title, error.kind.status, str(error), error.errors)
    if not isinstance(error, CausalBanditsError):
        return None
    kind, errors = (error.kind, error.errors) if isinstance(error, FieldsError) else (problem_type_of(error), [])
    detail = request_terms(str(error)) or (errors[0].detail if errors else f"{kind.title}.")
    return ProblemDetails(kind.uri, kind.title, kind.status, detail, errors)


RETRY_AFTER_SECONDS = {429: 1, 503: 1}

_FAMILY = r"\b(?:(?:[a-z]+-)+[a-z]+|auto|ts|ucb|uniform)"
_POLICY_CALL = re.compile(rf"({_FAMILY})\(\)")
_QUOTED = re.compile(
    rf"(\"(?:[^\"\\]|\\.)*\"|(?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|{_FAMILY}\([a-z_]+=(?:[^()\"]|\"(?:[^\"\\]|\\.)*\")*\))"
)
"""Parts that are not rewritten: quoted texts, and policies with their options, which requests name in the same form."""

_INTERVENTION = re.compile(r"\bdo\(([^()]*)\)")
_PROBABILITY = re.compile(r"\bP\(([^()]*)\)")
_CALL = re.compile(r"\b[A-Za-z_][\w.]*\(|\bcb\.\w|\b(?:study|problem|agent|env)\.\w|(?<!\w)--\w")
_ARGUMENT = re.compile(r"\b([A-Za-z_]\w*)=(?!=)")
_CONSTANTS = {"None": "null", "True": "true", "False": "false", "nan": "NaN"}
_CONSTANT = re.compile(r"\b(?:None|True|False|nan)\b")
_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[^a-z])")
_CLAUSE = re.compile(r"[;:]\s")
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_PLAIN_VALUE = re.compile(r"[^\s,;:()\[\]{}|]*[^\s,;:.?!()\[\]{}|]")


def request_terms(message: str) -> str:
    """A message of the library in terms of the request: fields and JSON, without arguments, calls or constants of
    Python.

    Arguments become fields, and calls that change an outcome become the corresponding operations. A sentence with
    another call is removed; of a sentence with several clauses, those before the call are kept.

    >>> request_terms("'x' was set to None by the decision. What was set may be left out: cancel(id).")
    "'x' was set to null by the decision. What was set may be left out."
    >>> request_terms("attribution_window= and default_reward= belong together.")
    'attribution_window and default_reward belong together.'
    >>> request_terms("c-ts(prior=beta) takes no horizon=3.")
    'c-ts(prior=beta) takes no horizon: 3.'
    >>> print(request_terms("Give them, values={'basket': [1, 2]}, or leave a=x out (data=). Change it by correct(0)."))
    Give them, values: {"basket": [1, 2]}, or leave a: x out (data). Change it by POST .../decisions/0/correct.
    >>> print(request_terms("It has probability 0 under do(x=1). Create it with zero_probability='allow'."))
    It has probability 0 under the action x: 1. Create it with zero_probability: 'allow'.
    """
    message = _POLICY_CALL.sub(r"\1", message)
    message = _INTERVENTION.sub(lambda match: _capitalised(_action_text(match[1]), match), message)
    message = _PROBABILITY.sub(lambda match: _capitalised(_probability_text(match[1]), match), message)
    message = OPERATION.sub(r"POST .../decisions/\2/\1", message)
    sentences = (_without_calls(sentence) for sentence in _split(message, _SENTENCE))
    text = " ".join(_rewrite(sentence) for sentence in sentences if sentence).strip().rstrip(":;,")
    return text if not text or text.endswith((".", "?", "!")) else f"{text}."


def _capitalised(text: str, match: re.Match[str]) -> str:
    """A replacement, capitalised at the start of a sentence."""
    begins = match.start() == 0 or match.string[: match.start()].endswith((". ", "? "))
    return text[:1].upper() + text[1:] if begins else text


def _action_text(assignment: str) -> str:
    if "=" not in assignment:
        return f"setting {assignment}" if assignment else "the empty action"
    return f"the action {assignment.replace('=', ': ')}"


def _probability_text(event: str) -> str:
    return f"the probability of {event.replace('=', ': ').replace(' | ', ' given ')}"


def _split(text: str, boundary: re.Pattern[str]) -> list[str]:
    """The parts of a text between boundaries outside of quotes and brackets."""
    masked, parts, start = _mask(text), [], 0
    for match in boundary.finditer(masked):
        parts.append(text[start : match.start()])
        start = match.end()
    return [*parts, text[start:]]


def _mask(text: str, *, brackets: bool = True) -> str:
    """The text with an underscore for each character within quotes and, with `brackets`, within brackets."""
    masked = _QUOTED.sub(lambda match: f"'{'_' * (len(match[0]) - 2)}'", text)
    if not brackets:
        return masked
    depth, characters = 0, []
    for character in masked:
        depth -= character in ")]}" and depth > 0
        characters.append("_" if depth else character)
        depth += character in "([{"
    return "".join(characters)


def _without_calls(sentence: str) -> str:
    """The clauses of a sentence before its first Python call; empty if there is no main clause before it."""
    call = _CALL.search(_mask(sentence, brackets=False))
    if call is None:
        return sentence
    ends = [match.start() for match in _CLAUSE.finditer(_mask(sentence)) if match.start() < call.start()]
    main_clause = sentence[: ends[-1]] if ends else ""
    return f"{main_clause}." if " " in main_clause and not main_clause.startswith("To ") else ""


def _rewrite(sentence: str) -> str:
    """A sentence without calls, with arguments as fields and literals as JSON."""
    masked, parts, start = _mask(sentence, brackets=False), list[str](), 0
    while match := re.compile(rf"{_ARGUMENT.pattern}|(?=[\[{{])").search(masked, start):
        parts.append(_plain_words(sentence[start : match.start()]))
        end = _literal_end(sentence, masked, match.end())
        value = sentence[match.end() : end].removesuffix("...")
        literal = _json_literal(value) if value[:1] in ("(", "[", "{") else _plain_words(value)
        parts.append(literal if match[1] is None else f"{match[1]}: {literal}" if value else match[1])
        start = end if end > match.start() else match.start() + 1
    return "".join([*parts, _plain_words(sentence[start:])])


def _literal_end(text: str, masked: str, start: int) -> int:
    """The end of a value that begins at `start`; `start` itself if there is none, as in `data=)`."""
    if start < len(text) and (masked[start] in _BRACKETS or masked[start] == "'"):
        if masked[start] == "'":
            quoted = _QUOTED.match(text, start)
            return start if quoted is None else quoted.end()
        depth = 0
        for k in range(start, len(text)):
            depth += (masked[k] in "([{") - (masked[k] in ")]}")
            if depth == 0:
                return k + 1
        return len(text)
    if text[start : start + 3] == "...":
        return start + 3
    plain = _PLAIN_VALUE.match(text, start)
    return start if plain is None else plain.end()


def _json_literal(text: str) -> str:
    """A Python literal as JSON: double quotes, arrays, and JSON constants; ellipses in examples are kept."""
    if text[-1] != _BRACKETS[text[0]]:
        return text  # an interval, such as [0, 1)
    parts = _QUOTED.split(text)
    for k, part in enumerate(parts):
        if k % 2:
            parts[k] = f'"{part[1:-1]}"' if part.startswith("'") and '"' not in part else part
        else:
            plain = part.replace("[...]", '["...", "..."]').translate(str.maketrans("()", "[]")).replace(",]", "]")
            parts[k] = _CONSTANT.sub(lambda match: _CONSTANTS[match[0]], plain)
    return "".join(parts)


def _plain_words(text: str) -> str:
    """A text without literals and arguments, in JSON terms; quoted texts are unchanged."""
    parts = _QUOTED.split(text)
    for k in range(0, len(parts), 2):
        plain = re.sub(r"\b([Aa]) mapping\b", r"\1n object", parts[k])
        parts[k] = _CONSTANT.sub(lambda match: _CONSTANTS[match[0]], plain)
    return "".join(parts)
