"""What MkDocs does besides rendering pages: it adds the pages that are made from the code and from files of the
repository, and sets pictures and formulas into the page, where they take on its colours and need no script.
"""

from __future__ import annotations

import base64
import inspect
import io
import json
import re
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FILES = {
    "project/benchmarks.md": "benchmarks/bench.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/contributing.md": "CONTRIBUTING.md",
}
"""Pages that are files of the repository."""
WIDE = ("reference/policies.md",)
"""Pages whose tables need the place of the table of contents."""
ZOO_IMAGES = "images/zoo"
"""Pictures of the environments, made when the site is built."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    pages = {page: (DOCS.parent / path).read_text(encoding="utf-8") for page, path in FILES.items()}
    pages |= {page: make() for page, make in generated_pages().items()}
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    for name, env in environments().items():
        files.append(File.generated(config, f"{ZOO_IMAGES}/{name}.svg", content=environment_picture(env)))
    return files


def generated_pages() -> dict[str, Callable[[], str]]:
    """Pages that are made from the code."""
    return {
        "reference/command-line.md": command_line_page,
        "reference/http-api.md": http_api_page,
        "reference/environments.md": environments_page,
    }


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Fences as the highlighter knows them, formulas as Markdown leaves them alone; a page alone needs no menu."""
    if page.parent is None:
        page.meta["hide"] = ["navigation"]
    elif page.file.src_uri in WIDE:
        page.meta["hide"] = ["toc"]
    plain = markdown.replace("```python no-run\n", "```python\n").replace("```output\n", "```text\n")
    return FORMULA.sub(_packed, plain)


FORMULA = re.compile(
    r"^```.*?^```|`[^`]*`|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^\s$][^$]*)\$", re.DOTALL | re.MULTILINE
)
"""LaTeX between dollars; or code, in which dollars are dollars."""


def _packed(found: re.Match[str]) -> str:
    """A formula in letters that mean nothing to Markdown."""
    if found["block"] is None and found["inline"] is None:
        return found[0]
    kind = "block" if found["block"] else "inline"
    return f'<span class="latex-{kind}">{base64.b64encode(found[kind].encode()).decode()}</span>'


def _formula(found: re.Match[str]) -> str:
    """The formula as MathML, which browsers know by themselves."""
    from latex2mathml.converter import convert

    return str(convert(" ".join(base64.b64decode(found[2]).decode().split()), display=found[1]))


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Set formulas and our drawings into the page itself: as images they would not follow its colours."""
    html = re.sub(r'<span class="latex-(block|inline)">(.*?)</span>', _formula, html)
    drawn = re.compile(r'<p><img alt="[^"]*" src="[^"]*images/(\w+)\.svg"\s*/?></p>')
    return drawn.sub(lambda found: _drawing(found[1]), html)


def _drawing(name: str) -> str:
    content = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
    return f'<figure class="drawing {name}">{content}</figure>'


def command_line_page() -> str:
    """Every command with its arguments and options, as the program itself knows them."""
    from typer.main import get_command

    from causalbandits.cli import app

    return page_of("causalbandits", get_command(app))


def page_of(name: str, program: Any) -> str:
    """The page of a program: itself, then its commands."""
    about = (
        "For readers who use the program in a shell: every command with its arguments, options and defaults. You need "
        "the package, `pip install causalbandits`; `--help` prints the same texts."
    )
    parts = ["# Command line", about, _help(program.help)]
    parts += [f"## {name}", *_command(name, program, "")]
    for path, command in commands(program, name):
        parts += [f"## {path}", *_command(path, command, _help(command.help))]
    return "\n\n".join(part for part in parts if part) + "\n"


def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """All commands below a group, with what is typed to reach them."""
    for name, command in group.commands.items():
        if not command.hidden:
            yield f"{path} {name}", command
            if hasattr(command, "commands"):
                yield from commands(command, f"{path} {name}")


def _command(path: str, command: Any, about: str) -> list[str]:
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in shown if not hasattr(parameter, "is_flag")]
    options = [parameter for parameter in shown if hasattr(parameter, "is_flag")]
    words = [path, *(["[OPTIONS]"] if options else []), *map(placeholder, arguments)]
    if hasattr(command, "commands"):
        words.append("COMMAND [ARGS]...")
    parts = [f"```text\n{' '.join(words)}\n```", about]
    if arguments:
        parts.append(_table("argument", [(placeholder(p), p) for p in arguments]))
    if options:
        parts.append(_table("option", [(_written(p), p) for p in options]))
    return parts


def placeholder(argument: Any) -> str:
    """How an argument is shown where a command is typed."""
    name = str(argument.metavar or argument.name).upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _written(option: Any) -> str:
    """How an option is typed, with an example of its value where it has one."""
    return " ".join([", ".join([*option.opts, *option.secondary_opts]), *filter(None, [option.metavar])])


def _table(kind: str, rows: list[tuple[str, Any]]) -> str:
    cells = [(f"`{name}`", escaped(p.help), _default(p)) for name, p in rows]
    columns = 3 if any(default for *_, default in cells) else 2
    lines = [(kind, "meaning", "default"), ("---",) * 3, *cells]
    return "\n".join(f"| {' | '.join(line[:columns])} |" for line in lines)


def _default(parameter: Any) -> str:
    value = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    if parameter.required:
        return "required"
    values = value if isinstance(value, list | tuple) else [value]
    told = [str(one) for one in values if isinstance(one, str | int | float | Path) and one is not False]
    return f"`{' '.join(told)}`" if told else ""


def _help(text: str | None) -> str:
    """A command's help as Markdown, lines of examples as code."""
    parts: list[str] = []
    for part in (text or "").split("\n\n"):
        if not part.startswith(" "):
            parts.append(escaped(part.strip("\n")))
        elif parts and parts[-1].startswith("```"):
            parts[-1] = parts[-1].removesuffix("```") + f"{part.strip()}\n```"
        else:
            parts.append(f"```shell\n{part.strip()}\n```")
    return "\n\n".join(parts)


def escaped(text: str | None) -> str:
    """Without Rich's markup, and with signs that Markdown would take for its own."""
    plain = re.sub(r"\[/?(bold|italic|dim|cyan|green|yellow|red)\]", "", text or "")
    return plain.replace("<", "&lt;").replace("|", "\\|")


# --- the HTTP API ---------------------------------------------------------------------------------------

ABOUT_HTTP = """# HTTP API

For engineers who call the service from a backend: every route with its role, fields, responses and errors. You need a
running service and a key: [Serve a study over HTTP](../how-to/http-service.md). Code for several languages is in
[Call it from any language](../how-to/backends.md).

The service has the OpenAPI document of this page at `/openapi.json`, for generators of clients.

- Requests and responses are JSON. Send a key as `Authorization: Bearer KEY`. A `reader` key reads, a `writer` key also
  asks and reports, an `admin` key also changes studies.
- Every response has the header `X-Request-ID`.
- Errors are problem details (RFC 9457), `application/problem+json`: [ProblemDetails](#problemdetails).
- Fields without "required" can be left out."""


def http_api_page() -> str:
    """Every route with its role, fields, responses and errors, as the OpenAPI document has them."""
    from causalbandits.service.openapi import build_document
    from causalbandits.service.problems import PROBLEM_TYPES
    from causalbandits.service.routes import ROUTES

    document = build_document(ROUTES)
    parts = [ABOUT_HTTP, "## Routes", _markdown_table(("route", "role", "purpose"), _route_rows(ROUTES))]
    schemas = document["components"]["schemas"]
    for route in ROUTES:
        parts += _operation(route, document["paths"][route.path][route.method.lower()], schemas)
    responses = document["components"]["responses"]
    statuses = [(f"`{status}`", escaped(response["description"])) for status, response in responses.items()]
    types = [(f"`{kind.uri}`", f"`{kind.status}`", escaped(kind.title)) for kind in PROBLEM_TYPES.values()]
    parts += ["## Errors", _markdown_table(("status", "meaning"), statuses)]
    parts += ["The `type` of problem details:", _markdown_table(("type", "status", "title"), types), "## Types"]
    for name in sorted(set(schemas) - request_only(document)):
        parts += [f"### {name}", *_schema(schemas[name])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _route_rows(routes: Any) -> list[tuple[str, ...]]:
    return [
        (f"[`{route.method} {route.path}`](#{route.handler.__name__})", _role(route), escaped(_first(route.summary)))
        for route in routes
    ]


def _role(route: Any) -> str:
    return f"`{route.role}`" if route.role else "no key"


def _first(text: str) -> str:
    """The first paragraph, on one line."""
    return " ".join(text.split("\n\n")[0].split())


PATH_PARAMETERS = {"study": "The name of the study.", "decision": "The id of the decision."}


def request_only(document: dict[str, Any]) -> set[str]:
    """The types of requests that nothing else has a link to: their fields are in the sections of their routes."""
    reference = re.compile(r"#/components/schemas/(\w+)")
    bodies = [
        reference.search(json.dumps(operation["requestBody"]))[1]  # type: ignore[index]
        for path in document["paths"].values()
        for operation in path.values()
        if "requestBody" in operation
    ]
    every = reference.findall(json.dumps(document))
    return {name for name in bodies if every.count(name) == bodies.count(name) == 1}


def _operation(route: Any, operation: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    """A route's section."""
    parts = [f"### `{route.method} {route.path}` {{#{route.handler.__name__}}}"]
    parts += [escaped(" ".join(part.split())) for part in route.summary.split("\n\n")]
    parts.append(f"Role: {_role(route)}.")
    parameters = [
        (f"`{own['name']}`", own["in"], type_name(own["schema"]), escaped(_about(own)))
        for own in operation.get("parameters", [])
    ]
    if parameters:
        parts.append(_markdown_table(("parameter", "in", "type", "meaning"), parameters))
    if "requestBody" in operation:
        body = operation["requestBody"]
        need = "required" if body.get("required") else "may be left out"
        name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        parts += [f"Request, `{name}` ({need}).", *_schema(schemas[name])]
    errors = []
    for status, response in operation["responses"].items():
        if "$ref" in response:
            errors.append(f"`{status}`")
        else:
            parts.append(f"Response `{status}`: {_content(response)}.")
    if errors:
        parts.append(f"Errors: {', '.join(errors)} ([meaning](#errors)).")
    return parts


def _about(parameter: dict[str, Any]) -> str:
    """The meaning of a parameter."""
    return str(parameter.get("description") or PATH_PARAMETERS[parameter["name"]])


def _content(holder: dict[str, Any]) -> str:
    """The types of a request's or a response's body."""
    content = holder.get("content", {})
    told = [
        type_name(own["schema"]) + ("" if kind == "application/json" else f" ({kind})") for kind, own in content.items()
    ]
    return " or ".join(told) or "no body"


def _schema(schema: dict[str, Any]) -> list[str]:
    """A type: its description and its fields."""
    parts = [escaped(schema.get("description", ""))]
    if "properties" in schema:
        required = schema.get("required", [])
        rows = [
            (
                f"`{name}`",
                type_name(own),
                "required" if name in required else "",
                escaped(_first(own.get("description", ""))),
            )
            for name, own in schema["properties"].items()
        ]
        parts.append(_markdown_table(("field", "type", "", "meaning"), rows) if rows else "It has no fields.")
    else:
        parts.append(f"Type: {type_name({name: own for name, own in schema.items() if name != 'description'})}.")
    return parts


def type_name(schema: dict[str, Any]) -> str:
    """A JSON schema in words, with links to the types of the page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(map(type_name, schema[key])))
    kind = schema.get("type", "any value")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {type_name(schema.get('items', {}))}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"mapping to {type_name(values)}" if isinstance(values, dict) and values else "object"
    limits = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    told = [f"{sign} {schema[name]}" for name, sign in limits.items() if name in schema]
    return escaped(f"{kind} ({', '.join(told)})" if told else str(kind))


def _markdown_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# --- environments ---------------------------------------------------------------------------------------

ABOUT_ENVIRONMENTS = """# Environments

For readers who simulate policies: the environments of `cb.zoo`, each with its graph, actions, values, reward and
source. You need [Why the graph saves trials](../explanation/why-the-graph.md).

An environment is a problem together with the mechanism of the reward, which only a simulator knows. In the pictures,
manipulable variables are blue, the reward is green, the context is violet, and the parents of the reward have a bold
rim."""

SOURCES: dict[str, tuple[str, str]] = {
    "email_campaign": ("email_campaign()", "Lu et al. (2020), Figures 5 and 6"),
    "email_segments": ("email_segments()", "this library, on the graph of the e-mail campaign"),
    "figure2": ("figure2()", "Lu et al. (2020), Figure 2"),
    "parallel": ("parallel(px=[[0.5, 0.5]], pw=[[0.2, 0.8]], theta=[1.0])", "Lu et al. (2020), Figure 1"),
    "random_parallel": ("random_parallel(3, 4, theta=[1, 1, 0, 0], rng=0)", "Lu et al. (2020), Figures 3 and 4"),
    "lower_bound": ("lower_bound(3, delta=0.5)", "Lu et al. (2020), Section 4"),
    "random_world": ("random_world(8, rng=3)", "this library"),
    "rare_prize": ("rare_prize()", "this library"),
    "random_graph": ("random_graph(2, rng=0)", "as in the code of Shahverdikondori et al. (2026)"),
    "random_tree": ("random_tree(6, rng=1)", "this library; the setting is that of Lu et al. (2021)"),
    "coins": ("coins()", "this library"),
    "detour": ("detour()", "this library"),
    "reversal": ("reversal()", "this library"),
    "confounded_casino": ("confounded_casino()", "Bareinboim, Forney and Pearl (2015)"),
}
"""The environments in the order of the page: a call, and where each is from."""


@cache
def environments() -> dict[str, Any]:
    """The environments of the page."""
    import causalbandits as cb

    return {name: eval(f"zoo.{call}", {"zoo": cb.zoo}) for name, (call, _) in SOURCES.items()}


def environment_picture(env: Any) -> bytes:
    """The graph of an environment, as SVG."""
    from causalbandits.results.plots import plot_graph

    with io.BytesIO() as file:
        plot_graph(env.problem).savefig(file, format="svg")
        return file.getvalue()


def environments_page() -> str:
    """Every environment of the zoo."""
    import causalbandits as cb

    parts = [ABOUT_ENVIRONMENTS]
    for name, env in environments().items():
        call, source = SOURCES[name]
        hidden = ", ".join(f"`{variable}`" for variable in cb.zoo.HIDDEN.get(name, ()))
        rows = [
            ("actions", f"{env.problem.actions.size:,}"),
            ("manipulable variables", _variables(env.problem, env.problem.manipulable)),
            ("context", _variables(env.problem, env.problem.context)),
            ("parents of the reward", _variables(env.problem, env.problem.parents)),
            ("configurations", f"{env.problem.configurations:,}"),
            ("reward", f"[`{type(env.reward).__name__}`](api/rewards.md)"),
            ("unobserved", hidden),
            ("source", source),
        ]
        about = inspect.getdoc(getattr(cb.zoo, name)) or ""
        paragraphs = [
            " ".join(part.split())
            for part in about.split("\n\n")
            if not part.startswith((">>>", "Args:", "Returns:", "Raises:"))
        ]
        parts += [f"## {name}", f"```python no-run\nenv = cb.zoo.{call}\n```", *map(escaped, paragraphs)]
        parts.append(f"![Graph of {name}](../{ZOO_IMAGES}/{name}.svg)")
        parts.append(_markdown_table(("property", "value"), [row for row in rows if row[1]]))
    parts += [
        "## Models and random graphs",
        "`cb.zoo.asia`, `cb.zoo.cancer` and `cb.zoo.earthquake` are models from the literature, without a reward. "
        "`cb.zoo.random_dag`, `cb.zoo.random_model`, `cb.zoo.random_hidden_graph` and `cb.zoo.model_of_graph` draw "
        "graphs and models. `cb.zoo.HIDDEN` has the unobserved variables of each environment. The "
        "[Python API](api/environment.md) documents their arguments.",
    ]
    return "\n\n".join(parts) + "\n"


def _variables(problem: Any, names: Any) -> str:
    """Variables with their values."""
    shown = [f"`{name}`: {', '.join(str(value) for value in problem.model[name].states)}" for name in names]
    return "; ".join(escaped(text.removesuffix(": ")) for text in shown)
