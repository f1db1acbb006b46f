"""Files: published networks read right, models come back bit for bit, and whatever is wrong gives its place."""

import gzip
import importlib.util
import pathlib
import pickle
import random
import re
import sys
import time
import types
import warnings

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits._files import json_recogniser, refuse_other_kind
from causalbandits.errors import CausalBanditsError, FormatError, ModelError, SizeError, StateError
from causalbandits.formats import _scanner, bif, dot, json, xmlbif
from causalbandits.formats.adapters import from_pgmpy, from_pyagrum, to_pgmpy, to_pyagrum
from causalbandits.model.variable import LABEL_LIMIT
from oracles import models, patient, random_table

HEAD = """network test {
}
variable x {
  type discrete [ 2 ] { a, b };
}
variable y {
  type discrete [ 3 ] { u, v, w };
}
"""
SMALL = HEAD + (
    "probability ( x ) {\n  table 0.25, 0.75;\n}\n"
    "probability ( y | x ) {\n  (a) 0.5, 0.25, 0.25;\n  (b) 0.1, 0.2, 0.7;\n}\n"
)


def small():
    return bif.loads(SMALL)


def same_bits(a, b):
    assert a == b
    assert a.properties == b.properties
    assert all(a[name].table.tobytes() == b[name].table.tobytes() for name in a.names)


def pyagrum():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import crashes the interpreter where warnings are errors
        return pytest.importorskip("pyagrum", reason="pyAgrum is not installed: pip install pyagrum")


# --- published networks -------------------------------------------------------------------------------

NETWORKS = [
    *("alarm", "andes", "asia", "barley", "cancer", "child", "diabetes", "earthquake", "hailfinder", "hepar2"),
    *("insurance", "link", "mildew", "munin", "munin1", "munin2", "munin3", "munin4", "pathfinder", "pigs", "sachs"),
    *("survey", "water", "win95pts"),
]


def network_file(name):
    spec = importlib.util.find_spec("pgmpy")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("The networks' files come with pgmpy: pip install --no-deps pgmpy")
    path = pathlib.Path(spec.submodule_search_locations[0]) / "utils" / "example_models" / f"{name}.bif.gz"
    if not path.exists():
        pytest.skip(f"This pgmpy has no {path}")
    return path


def plain(word):
    """A word without signs; numbers stay as they are."""
    return word if re.fullmatch(r"[0-9.]+(e-?[0-9]+)?", word) else re.sub(r"\W", "_", word)


def by_axes(cpt, names):
    """A table of pyAgrum's with its axes in this order; the axes of its arrays are its names backwards."""
    return cpt.toarray().transpose([cpt.names[::-1].index(name) for name in names])


def read_plainly(text):
    """Parents, states and tables of a file in which every row has a line of its own, as in all of these."""
    states, tables, parents = {}, {}, {}
    for line in text.splitlines():
        words = re.sub(r"[,;(){}|\[\]]", " ", line).split()
        if line.startswith("variable"):
            current = words[1]
        elif line.startswith("  type"):
            states[current] = tuple(words[3:])
        elif line.startswith("probability"):
            current, parents[words[1]] = words[1], tuple(words[2:])
            tables[current] = np.full([len(states[name]) for name in (*words[2:], current)], np.nan)
        elif line.startswith("  table"):
            tables[current][:] = [float(word) for word in words[1:]]
        elif line.startswith("  ("):
            above = parents[current]
            row = tuple(states[p].index(word) for p, word in zip(above, words, strict=False))
            tables[current][row] = [float(word) for word in words[len(above) :]]
    return {name: (parents[name], states[name], tables[name]) for name in states}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_published_network_reads_as_pyagrum_and_a_plain_reader_read_it(name, tmp_path):
    gum = pyagrum()
    source = network_file(name)
    started = time.perf_counter()
    model = cb.read(source)
    assert time.perf_counter() - started < 20  # munin takes one second; a quadratic reader would take minutes
    text = gzip.decompress(source.read_bytes()).decode()
    plainly = read_plainly(text) if len(text) < 500_000 else {}
    for variable, (parents, states, table) in plainly.items():
        assert (model[variable].parents, model[variable].states) == (parents, states)
        exact = table / table.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(model[variable].table, exact, rtol=0, atol=1e-15)
    if name == "child":  # pyAgrum does not know the signs < > / + in a label
        text = re.sub(r"[^\s,(){}\[\];|]+", lambda word: plain(word.group()), text)
    (tmp_path / "network.bif").write_text(text)
    other = gum.loadBN(str(tmp_path / "network.bif"))
    assert set(model.names) == set(other.names())
    for variable, v in model.variables.items():
        states = v.states if name != "child" else tuple(map(plain, v.states))
        assert states == other.variable(variable).labels()
        assert set(v.parents) == {other.variable(node).name() for node in other.parents(variable)}
    for variable in model.names if len(model.names) <= 120 else random.Random(0).sample(model.names, 120):
        # It reads in float32 and does not renormalise.
        theirs = by_axes(other.cpt(variable), [*model[variable].parents, variable])
        np.testing.assert_allclose(model[variable].table, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["asia", "child", "hailfinder", "sachs"])
@pytest.mark.parametrize("extension", [".bif", ".xml", ".json", ".bif.gz", ".xmlbif.gz"])
def test_a_published_network_comes_back_bit_for_bit(name, extension, tmp_path):
    model = cb.read(network_file(name))
    cb.write(model, tmp_path / f"copy{extension}")
    same_bits(cb.read(tmp_path / f"copy{extension}"), model)


def test_odd_labels_of_published_networks_are_kept():
    child = cb.read(network_file("child"))
    assert child["LowerBodyO2"].states == ("<5", "5-12", "12+")
    assert child["CO2Report"].states == ("<7.5", ">=7.5")
    assert child["XrayReport"].states[-1] == "Asy/Patchy"


# --- there and back -----------------------------------------------------------------------------------

in_xml = st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff").filter(
    lambda letter: letter >= " " or letter in "\t\n\r"
)
odd = st.one_of(
    st.text(in_xml, max_size=8),
    st.sampled_from(
        [
            *(
                "",
                " ",
                "a b",
                'say "hi"',
                "\\",
                '\\"',
                "table",
                "{",
                "a,b",
                "//",
                "/*",
                "x/y",
                ";",
                "|",
                "<a>",
                "&amp;",
            ),
            *("1e5", "property", "\r\n", " padded ", "ü", "日本", "\x85", "]]>", "name = x", "unknown", "-0"),
        ]
    ),
)


@st.composite
def odd_models(draw):
    """A random model with labels and properties that no format would choose."""
    model = draw(models(most=4))
    names = draw(st.lists(odd.filter(bool), min_size=len(model.names), max_size=len(model.names), unique=True))
    new = dict(zip(model.names, names, strict=True))
    variables = []
    for v in model.variables.values():
        states = draw(st.lists(odd, min_size=len(v.states), max_size=len(v.states), unique=True))
        variables.append(cb.Variable(new[v.name], states, parents=[new[p] for p in v.parents], table=v.table))
    properties = draw(st.dictionaries(st.sampled_from(["", *names]), st.lists(odd, max_size=3), max_size=3))
    return cb.CausalModel(variables, properties=properties)


@patient
@given(odd_models())
def test_every_format_with_cpts_gives_back_every_bit_label_and_property(model):
    same_bits(bif.loads(bif.dumps(model)), model)
    same_bits(xmlbif.loads(xmlbif.dumps(model).encode()), model)
    same_bits(json.loads(json.dumps(model)), model)
    same_bits(pickle.loads(pickle.dumps(model)), model)


@patient
@given(models())
def test_dot_gives_back_the_graph(model):
    graph = dot.loads(dot.dumps(model.graph))
    assert graph.names == model.names
    assert graph.parents == {name: v.parents for name, v in model.variables.items()}


def test_what_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    many = [cb.Variable(f"p{i}", ["a"], table=[1]) for i in range(32)]
    if np.__version__ >= "2":  # older ones hold 32 axes
        table = np.ones([1] * 32 + [1])
        model = cb.CausalModel([*many, cb.Variable("z", ["a"], parents=[v.name for v in many], table=table)])
        with pytest.raises(SizeError, match=r"at most 31 parents; this model has 33 and 32\."):
            cb.write(model, tmp_path / "z.bif")
    monkeypatch.setattr("causalbandits.formats.FILE_LIMIT", 100)
    with pytest.raises(SizeError, match=r"^x\.bif: the limit of a file is 100 bytes; this model"):
        cb.write(small(), tmp_path / "x.bif")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("extension", [".bif", ".xml", ".json", ".bif.gz", ".json.gz", ".BIF.GZ"])
def test_writing_twice_gives_the_same_bytes(extension, tmp_path):
    paths = [tmp_path / f"{i}{extension}" for i in range(2)]
    for path in paths:
        cb.write(small(), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert cb.read(str(paths[0])) == small()


def test_only_json_keeps_the_types_of_states(tmp_path):
    model = cb.CausalModel([cb.Variable("x", [1, ("a", 2.5), None], table=[0.2, 0.3, 0.5])])
    cb.write(model, tmp_path / "model.json")
    assert cb.read(tmp_path / "model.json")["x"].states == (1, ("a", 2.5), None)
    for extension in (".bif", ".xml"):
        cb.write(model, tmp_path / f"model{extension}")
        assert cb.read(tmp_path / f"model{extension}")["x"].states == ("1", "('a', 2.5)", "None")


def test_states_that_become_the_same_text_are_refused():
    model = cb.CausalModel([cb.Variable("x", [1, "1"], table=[0.5, 0.5])])
    for dumps in (bif.dumps, xmlbif.dumps, to_pyagrum):
        with pytest.raises(ModelError, match=r"1 and '1' of 'x' would be equal\. Use JSON,"):
            dumps(model)


def test_what_a_format_cannot_hold_is_refused_and_no_file_is_left(tmp_path):
    surrogate = cb.CausalModel([cb.Variable("x", ["a\ud800", "b"], table=[0.5, 0.5])])
    control = cb.CausalModel([cb.Variable("x", ["a\x00", "b"], table=[0.5, 0.5])])
    long = cb.CausalModel([cb.Variable("x", [0], table=[1])], properties={"x": ["a" * 10_001]})
    backslash = cb.CausalModel([cb.Variable("x\\", ["a", "b"], table=[0.5, 0.5])])
    for model, extension, message in [
        (surrogate, ".bif", "UTF-8 cannot hold"),
        (control, ".xml", r"XML cannot hold the character '\\x00'"),
        (long, ".json", r"10,000 characters: 'aaaa.*\(10,001 characters\)"),
        (backslash, ".dot", "DOT cannot hold the name"),
        (nx.DiGraph(), ".bif", "takes a CausalModel"),
        ("model", ".json", r"also a networkx\.DiGraph\); got 'model'"),
    ]:
        with pytest.raises(ModelError, match=message):
            cb.write(model, tmp_path / f"x{extension}")
    assert not list(tmp_path.iterdir())
    cb.write(surrogate, tmp_path / "x.json")
    assert cb.read(tmp_path / "x.json") == surrogate


def test_the_longest_label_comes_back():
    for letter in ("a", '"', "\\", "ü", "\U0001f600"):
        model = cb.CausalModel([cb.Variable("x", [letter * 10_000, "b"], table=[0.5, 0.5])])
        assert bif.loads(bif.dumps(model)) == model
        assert xmlbif.loads(xmlbif.dumps(model).encode()) == model
        assert json.loads(json.dumps(model)) == model


# --- properties ---------------------------------------------------------------------------------------


def test_properties_are_kept_but_do_not_count():
    text = SMALL.replace("network test {", 'network test {\n property author = me ;\n property "a; b";').replace(
        "(a) 0.5", 'property position = (1, 2);\n property 5" wide; (a) 0.5'
    )
    model = bif.loads(text)
    assert model.properties == {"": ("name = test", "author = me", "a; b"), "y": ("position = (1, 2)", '5" wide')}
    assert model == cb.CausalModel(model.variables.values())
    assert hash(model) == hash(cb.CausalModel(model.variables.values()))
    for back in (bif.loads(bif.dumps(model)), xmlbif.loads(xmlbif.dumps(model).encode())):
        assert back.properties == model.properties
    with pytest.raises(TypeError):
        model.properties["x"] = ()


@pytest.mark.parametrize("properties", ["author", {"z": ["a"]}, {"x": "a"}, {"x": [1]}, {"x": 3}, ["x"]])
def test_properties_that_cannot_be_are_refused(properties):
    with pytest.raises(ModelError, match="Properties map a variable's name, or '' for the model, to a list of texts"):
        cb.CausalModel([cb.Variable("x", ["a"], table=[1])], properties=properties)


# --- what BIF means -----------------------------------------------------------------------------------


def test_a_conditional_table_moves_through_the_last_parent_fastest_as_pyagrum_reads_it(tmp_path):
    numbers = random_table(np.random.default_rng(1), [2, 3], 4)
    flat = np.moveaxis(numbers, -1, 0).ravel()
    text = HEAD + (
        "variable z { type discrete [4] { p, q, r, s }; }\n"
        "probability (x) { table 0.5 0.5; }\nprobability (y) { table 1.0 0.0 0.0; }\n"
        f"probability ( z | x, y ) {{ table {' '.join(map(repr, flat.tolist()))}; }}\n"
    )
    np.testing.assert_allclose(bif.loads(text)["z"].table, numbers, rtol=0, atol=1e-15)
    (tmp_path / "z.bif").write_text(text)
    network = pyagrum().loadBN(str(tmp_path / "z.bif"))  # its tables do not outlive it
    np.testing.assert_allclose(by_axes(network.cpt("z"), "xyz"), numbers, rtol=0, atol=1e-6)


def test_a_default_stands_for_the_rows_that_are_missing():
    text = HEAD + "probability (x) { default .5 .5; } probability (y | x) { (b) 0 0 1; default .5 .25 .25; }"
    assert bif.loads(text)["y"].table.tolist() == [[0.5, 0.25, 0.25], [0, 0, 1]]


def test_comments_separators_quotes_and_order_are_free():
    text = """// first
    network "a network" { /* nothing; { */ }
    probability ( "x" "y y" ) { // old style: no bar
      ("7-" ) 0.5 /* half; */ , .5;  (b|) 1e0, 0.; }
    variable "x" { property p; type discrete[2]{"yes, no" -.5<>}; }
    probability("y y"|){table +0.25 75E-2 ; }
    variable "y y" { type discrete [2] { 7-, b } ; }"""
    with pytest.raises(FormatError, match=r"line 4, column 40: expected a parent's state or '\)', found '\|'"):
        bif.loads(text)
    model = bif.loads(text.replace("(b|)", "(b)"))
    assert model["x"].states == ("yes, no", "-.5<>")
    assert model["x"].parents == ("y y",)
    assert model["x"].table.tolist() == [[0.5, 0.5], [1, 0]]
    assert model["y y"].table.tolist() == [0.25, 0.75]


@pytest.mark.parametrize("row", ["0.333, 0.333, 0.333", "0.1004, 0.2, 0.7", "0.1, 0.2, 0.70000003"])
def test_rounded_rows_are_renormalised(row):
    numbers = np.array([float(number) for number in row.split(",")])
    text = SMALL.replace("0.1, 0.2, 0.7", row)
    for model in (bif.loads(text), xmlbif.loads(xmlbif.dumps(small()).replace("0.1 0.2 0.7", row).encode())):
        np.testing.assert_allclose(model["y"].table[1], numbers / numbers.sum(), rtol=0, atol=1e-15)
        assert model["y"].table[0].tolist() == [0.5, 0.25, 0.25]


# --- errors -------------------------------------------------------------------------------------------

BIF_ERRORS = [
    ("", 1, 1, "expected 'network', found the end of the file."),
    ("netwerk", 1, 1, "expected 'network', found 'netwerk'."),
    ("network {", 1, 9, "expected the network's name, found '{'."),
    (SMALL.replace("variable y", "varable y"), 6, 1, "expected 'variable' or 'probability', found 'varable'."),
    (SMALL.replace("[ 3 ]", "[ 4 ]"), 7, 19, "expected 4 states of 'y', found 3. A state with a space or a comma"),
    (SMALL.replace("[ 3 ]", "[ three ]"), 7, 19, "expected the number of states, found 'three'."),
    (SMALL.replace("u, v, w", "u, v, u"), 7, 31, "expected distinct states, found 'u' twice"),
    (SMALL.replace("discrete [ 3", "real [ 3"), 7, 8, "expected 'discrete', found 'real'."),
    (SMALL.replace("0.2, 0.7", "0.2, seven"), 14, 17, "expected a number or ';', found 'seven'."),
    (SMALL.replace("0.2, 0.7", "0_2, 0.7"), 14, 12, "expected a number or ';', found '0_2'."),
    (SMALL.replace("0.2, 0.7", "nan, 0.7"), 14, 12, "expected a number or ';', found 'nan'."),
    (SMALL.replace("0.2, 0.7;", "0.2, 0.7"), 15, 1, "expected a number or ';', found '}'."),
    (SMALL.replace("0.2, 0.7", "0.2"), 14, 3, "expected 3 numbers for 'y', found 2."),
    (SMALL.replace("(b)", "(c)"), 14, 3, "expected a state of the parent ('a', 'b'), found 'c'."),
    (SMALL.replace("(b)", "(a)"), 14, 3, "expected each row of 'y' once, found this one again."),
    (SMALL.replace("(b)", "(b, b)"), 14, 3, "expected 1 states of the parents of 'y', found 2."),
    (SMALL.replace("  (b) 0.1, 0.2, 0.7;\n", ""), 12, 15, "expected a row ('b') for 'y', found none."),
    (SMALL.replace("( y | x )", "( y | xx )"), 12, 19, "Unknown variable 'xx'. Did you mean 'x'?"),
    (SMALL.replace("( y | x )", "( y | x x )"), 12, 21, "expected distinct parents, found 'x' twice"),
    (SMALL.replace("( y | x )", "( x | x )"), 12, 15, "expected one definition of 'x', found a second."),
    (HEAD, 3, 10, "expected a definition of 'x', found none."),
    (SMALL + "variable x { }", 16, 10, "expected a new variable, found 'x' again"),
    (SMALL + "variable z { }", 16, 10, "expected at least one state of 'z', found none."),
    (SMALL + 'variable "z { }', 16, 10, "expected a closing quote, found '\"z { }'."),
    (SMALL + "/* never", 16, 1, "expected a closing */, found '/* never'."),
    (SMALL.replace("network test {", "network test { property p"), 1, 25, "expected a property that ends with ';'"),
    (SMALL[:-20], 14, 4, "expected a parent's state or ')', found the end of the file."),
    (SMALL[:-10], 14, 14, "expected a number or ';', found the end of the file."),
    (SMALL.replace("0.1,", "0.2,"), 14, 3, "must not be negative and sum to 1 (to 0.005): row (x='b') sums to 1.1."),
    (SMALL.replace("0.1,", "0.11,"), 14, 3, "P(y | x) must not be negative and sum to 1 (to 0.005): row (x='b') sums"),
    (SMALL.replace("0.25, 0.75", "1.25, -0.25"), 9, 15, "must not be negative and sum to 1 (to 0.005): it has -0.25."),
    (
        SMALL.replace("0.25, 0.75", "1e999, 0"),
        9,
        15,
        "must not be negative and sum to 1 (to 0.005): it sums to inf",
    ),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), BIF_ERRORS)
def test_a_malformed_bif_gives_line_column_and_what_was_expected(text, line, column, message):
    with pytest.raises(FormatError) as caught:
        bif.loads(text, "bad.bif")
    assert (caught.value.file, caught.value.line, caught.value.column) == ("bad.bif", line, column)
    assert str(caught.value).startswith(f"bad.bif, line {line}, column {column}: ")
    assert message in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def xml():
    return xmlbif.dumps(small())


XML_ERRORS = [
    (lambda: "", 1, 1, "expected XML, found 'no element found'."),
    (lambda: xml()[:200], 10, 1, "expected XML, found 'unclosed token'."),
    (lambda: xml().replace("</NETWORK>", "</NETWERK>"), 30, 3, "expected XML, found 'mismatched tag'."),
    (lambda: xml().replace("VARIABLE", "VARABLE"), 5, 1, "expected 'NAME', 'PROPERTY', 'VARIABLE' or 'DEFINITION'"),
    (lambda: xml().replace("<OUTCOME>a", "<OUTCOME><b/>a"), 7, 10, "expected text inside 'OUTCOME', found the element"),
    (lambda: xml().replace("<TABLE>", "0.5<TABLE>", 1), 18, 1, "found the text '0.5'"),
    (lambda: xml().replace("0.25 0.75", "0.25 x.75"), 19, 6, "expected a number, found 'x.75'."),
    (lambda: xml().replace("0.25 0.75", "0.25 0.7 5"), 18, 1, "expected 2 numbers in the TABLE of 'x', found 3."),
    (
        lambda: xml().replace("0.25 0.75", "0.25 0.8"),
        17,
        1,
        "must not be negative and sum to 1 (to 0.005): it sums",
    ),
    (lambda: xml().replace("<FOR>x</FOR>", ""), 16, 1, "expected one FOR, found 0."),
    (lambda: xml().replace("nature", "utility", 1), 5, 1, "expected a VARIABLE of TYPE 'nature', found 'utility'."),
    (lambda: xml().replace("</BIF>", "<NETWORK/></BIF>"), 31, 1, "expected one NETWORK, found a second."),
    (lambda: xml().replace("UTF-8", "martian"), 1, 1, "expected an encoding such as UTF-8, found"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), XML_ERRORS)
def test_a_malformed_xmlbif_gives_line_column_and_what_was_expected(text, line, column, message):
    with pytest.raises(FormatError) as caught:
        xmlbif.loads(text().encode(), "bad.xml")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert message in str(caught.value)


def test_a_model_that_cannot_be_names_the_file(tmp_path):
    (tmp_path / "loop.bif").write_text(
        HEAD + "probability (x | y) { default 1 0; } probability (y | x) { default 1 0 0; }"
    )
    with pytest.raises(ModelError, match=r"^loop.bif: The graph must have no cycle; it has "):
        cb.read(tmp_path / "loop.bif")
    (tmp_path / "empty.bif").write_text("network n { }")
    with pytest.raises(ModelError, match=r"^empty.bif: A CausalModel needs at least one variable"):
        cb.read(tmp_path / "empty.bif")
    (tmp_path / "two.json").write_text('{"format": "causalbandits-model", "version": 1}')
    with pytest.raises(ModelError, match=r"^two.json: Model files of version 2"):
        cb.read(tmp_path / "two.json")
    (tmp_path / "broken.json").write_text('{"format":\n  oops}')
    with pytest.raises(FormatError, match=r"^broken.json, line 2, column 3: expected JSON, found 'Expecting value'"):
        cb.read(tmp_path / "broken.json")


def test_files_that_are_not_there_or_of_no_known_kind_are_refused(tmp_path):
    with pytest.raises(FormatError, match=r"^model.bfi: Unknown extension '.bfi'. Did you mean '.bif'\?"):
        cb.read("model.bfi")
    with pytest.raises(FormatError, match=r"Unknown extension '.jsn'. Did you mean '.json'"):
        cb.write(small(), "model.jsn.gz")
    with pytest.raises(FormatError, match=r"nowhere.bif: cannot be read: No such file"):
        cb.read(tmp_path / "nowhere.bif")
    (tmp_path / "folder.bif").mkdir()
    with pytest.raises(FormatError, match="expected a regular file, found"):
        cb.read(tmp_path / "folder.bif")
    with pytest.raises(CausalBanditsError, match=r"A path must be text or a Path, such as 'model.bif'; got 3"):
        cb.read(3)


# --- DOT ----------------------------------------------------------------------------------------------


def test_dot_knows_chains_groups_subgraphs_ports_attributes_and_comments():
    graph = dot.loads(
        """/* a graph */ strict DiGraph "of sales" {
        rankdir = LR; node [shape=box, style="rounded; filled"] [color=red]
        season -> "visits \\"here\\"" -> sales [weight=2];   // a chain
        {season price;} -> subgraph cluster_0 { label="x"; basket:n -> -1.5 }
# a line for the preprocessor
        alone; ünder_9:sw:n
        }"""
    )
    assert graph.names == ("season", 'visits "here"', "sales", "price", "basket", "-1.5", "alone", "ünder_9")
    assert set(graph.graph.edges) == {
        ("season", 'visits "here"'), ('visits "here"', "sales"), ("season", "basket"), ("season", "-1.5"),
        ("price", "basket"), ("price", "-1.5"), ("basket", "-1.5"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "expected 'digraph' or 'dag', found the end of the file"),
        ("graph { a -- b }", 1, 1, "expected 'digraph' or 'dag', found 'graph'"),
        ("digraph {\n a -- b }", 2, 4, "expected '->', found '--'"),
        ("digraph {\n a -> }", 2, 7, "expected a node, '{' or '}', found '}'"),
        ("digraph { a -> node }", 1, 16, "expected a node, found 'node'"),
        ("digraph { a [label=<b>] }", 1, 20, "expected a value, found '<'"),
        ("digraph { a", 1, 12, "expected a node, '{' or '}', found the end of the file"),
        ("digraph { a } b", 1, 15, "expected the end of the file, found 'b'"),
        ('digraph { "a }', 1, 11, "expected a closing quote"),
        ("digraph { a % b }", 1, 13, "expected a name or a sign, found '% b }'"),
        ('digraph { "" }', 1, 11, "expected a name, found ''"),
        ("digraph { subgraph s { a -> b [dir = None] } }", 1, 32, "found dir=none, an edge without direction"),
        (
            'digraph {\nEDGE ["dir" = "none"]\na -> b }',
            2,
            7,
            "expected an arrow from a cause to its effect, found dir=none,",
        ),
        ("digraph { a <- b [dir=back] }", 1, 19, "expected no dir beside '<-', found dir=back"),
        ("digraph { a <-> b [dir=back] }", 1, 20, "expected no dir beside '<->', found dir=back"),
        ("digraph { a <- }", 1, 16, "expected a node"),
        ("dag { a -- b }", 1, 9, "expected '->', found '--'"),
        ("mag { a -> b }", 1, 1, "found 'mag', a maximal ancestral graph"),
        ("PAG { a @-> b }", 1, 1, "found 'PAG', a partial ancestral graph"),
        ("pdag { a -- b }", 1, 1, "found 'pdag', a partially directed graph"),
        ("dag { s [selected] a -> s }", 1, 10, "expected a variable that is not a selection node, found 'selected':"),
    ],
)
def test_a_malformed_dot_gives_line_column_and_what_was_expected(text, line, column, message):
    with pytest.raises(FormatError) as caught:
        dot.loads(text, "bad.dot")
    assert str(caught.value).startswith(f"bad.dot, line {line}, column {column}: ")
    assert message in str(caught.value)


def test_dir_matters_only_on_edges_and_forward_is_an_arrow():
    text = "digraph { dir=both; node [dir=both]; graph [dir=none]; edge [dir=forward]; a [dir=both]; a -> b [dir=x] }"
    assert dot.loads(text) == cb.CausalGraph({"b": ["a"]})


def test_a_drawing_shows_the_states_and_a_cycle_is_refused(tmp_path):
    cb.write(small(), tmp_path / "small.dot")
    assert '"y" [label="y\\nu, v, w"];' in (tmp_path / "small.dot").read_text()
    graph = cb.read(tmp_path / "small.dot")
    assert graph == cb.CausalGraph({"y": ["x"]})
    cb.write(graph, tmp_path / "again.gv")
    assert cb.read(tmp_path / "again.gv") == graph
    (tmp_path / "loop.dot").write_text("digraph { a -> b -> c -> b }")
    with pytest.raises(
        ModelError, match=r"^loop.dot: The graph must have no cycle; it has (b -> c -> b|c -> b -> c)\."
    ):
        cb.read(tmp_path / "loop.dot")


# --- other libraries ----------------------------------------------------------------------------------


@settings(patient, max_examples=20)
@given(models(fewest_states=2))
def test_a_model_comes_back_from_pyagrum_bit_for_bit(model):
    pyagrum()
    back = from_pyagrum(to_pyagrum(model))
    assert back.names == model.names
    for name, v in model.variables.items():
        assert back[name].states == v.states
        order = [back[name].parents.index(parent) for parent in v.parents]
        assert back[name].table.transpose([*order, len(order)]).tobytes() == v.table.tobytes()


def test_pyagrum_reads_what_is_written_in_bif_and_xmlbif(tmp_path):
    gum = pyagrum()
    plain = cb.read(network_file("asia"))
    # Its older readers want a property for every variable.
    properties = dict.fromkeys(plain.names, ("position = (0, 0)",))
    model = cb.CausalModel(plain.variables.values(), properties=properties)
    for extension in (".bif", ".bifxml"):
        cb.write(model, tmp_path / f"asia{extension}")
        other = gum.loadBN(str(tmp_path / f"asia{extension}"))
        for name, v in model.variables.items():
            np.testing.assert_allclose(by_axes(other.cpt(name), [*v.parents, name]), v.table, rtol=0, atol=1e-6)


def test_xmlbif_written_by_pyagrum_is_read(tmp_path):
    gum = pyagrum()
    network = to_pyagrum(cb.read(network_file("asia")))
    gum.saveBN(network, str(tmp_path / "asia.bifxml"))
    model, exact = cb.read(tmp_path / "asia.bifxml"), cb.read(network_file("asia"))
    assert set(model.names) == set(exact.names)
    for name, v in model.variables.items():
        axes = [exact[name].parents.index(parent) for parent in v.parents]
        np.testing.assert_allclose(v.table, exact[name].table.transpose([*axes, len(axes)]), rtol=0, atol=1e-5)


class FakeCPD:
    """The part of pgmpy's TabularCPD that is used: values with the variable's own axis first."""

    def __init__(self, variable, variable_card, values, evidence=None, evidence_card=None, state_names=None):
        assert np.shape(values) == (variable_card, int(np.prod(evidence_card or [1])))
        self.variable, self.variables = variable, [variable, *(evidence or [])]
        self.values = np.array(values).reshape([variable_card, *(evidence_card or [])])
        self.state_names = state_names


class FakeNetwork(nx.DiGraph):
    """The part of pgmpy's DiscreteBayesianNetwork that is used."""

    def add_cpds(self, *cpds):
        self.graph.setdefault("cpds", {}).update({cpd.variable: cpd for cpd in cpds})

    def get_cpds(self, node):
        return self.graph.get("cpds", {}).get(node)


@pytest.fixture
def pgmpy(monkeypatch):
    """pgmpy itself where it can be imported, else a stand-in with the same shape."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module("pgmpy.models")
    except ImportError:
        for name in [name for name in sys.modules if name.split(".")[0] == "pgmpy"]:
            monkeypatch.delitem(sys.modules, name)
        modules = {
            "pgmpy": types.ModuleType("pgmpy"),
            "pgmpy.models": types.SimpleNamespace(DiscreteBayesianNetwork=FakeNetwork),
            "pgmpy.factors": types.ModuleType("pgmpy.factors"),
            "pgmpy.factors.discrete": types.SimpleNamespace(TabularCPD=FakeCPD),
        }
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("pgmpy")
def test_a_model_comes_back_from_pgmpy_bit_for_bit():
    rng = np.random.default_rng(3)
    model = cb.CausalModel(
        [
            cb.Variable("c", [0, 1, 2], parents=["b", "a"], table=random_table(rng, [3, 2], 3)),
            cb.Variable("a", ["yes", "no"], table=[0.1, 0.9]),
            cb.Variable("b", [("x", 1), None, 2.5], parents=["a"], table=random_table(rng, [2], 3)),
        ]
    )
    network = to_pgmpy(model)
    assert set(network.edges) == {("b", "c"), ("a", "c"), ("a", "b")}
    same_bits(from_pgmpy(network), model)


@pytest.mark.usefixtures("pgmpy")
def test_networks_that_are_none_are_refused():
    network = to_pgmpy(small())
    network.get_cpds("y").state_names["x"] = ["b", "a"]
    with pytest.raises(ModelError, match=r"states \['b', 'a'\] of 'x', and the CPD of 'x' has \['a', 'b'\]"):
        from_pgmpy(network)
    bare = type(network)()
    bare.add_node("x")
    with pytest.raises(ModelError, match="The node 'x' needs a CPD"):
        from_pgmpy(bare)
    for adapter, library in ((from_pgmpy, "pgmpy"), (from_pyagrum, "pyAgrum")):
        with pytest.raises(ModelError, match=f"A discrete Bayesian network of {library} was expected; got 3"):
            adapter(3)


def test_a_library_that_is_missing_is_named(monkeypatch):
    for adapter, library in ((to_pgmpy, "pgmpy"), (to_pyagrum, "pyagrum")):
        for name in [name for name in sys.modules if name.split(".")[0] == library]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(CausalBanditsError, match=f"This conversion requires {library}: pip install {library}"):
            adapter(small())


def test_the_page_states_the_limits():
    page = (pathlib.Path(__file__).parents[2] / "docs/reference/file-formats.md").read_text(encoding="utf-8")
    for number in (f"{_scanner.FILE_LIMIT // 2**20} MiB", f"{LABEL_LIMIT:,}", f"{_scanner.NUMBER_LIMIT:,}"):
        assert number in page
    assert f"{_scanner.ROUNDING_TOLERANCE}" in page


# --- what is there already ----------------------------------------------------------------------------

EXTENSIONS = (".json", ".bif", ".xml", ".dot", ".json.gz", ".bif.gz", ".xml.gz", ".gv.gz")


def compressed(path, content):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_model_is_not_written_over_a_saved_agent(extension, tmp_path):
    path = tmp_path / f"campaign{extension}"
    cb.Agent(cb.zoo.email_campaign().problem, "c-ucb").save(tmp_path / "agent.json")
    compressed(path, (tmp_path / "agent.json").read_bytes())
    before = path.read_bytes()
    with pytest.raises(StateError, match=r"'causalbandits-agent'\. Choose another path, or delete"):
        cb.write(small(), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize(
    "content", [b"{}", b"years of work", b"\x00\xff", b'{"format": "something"}', b"graph network"]
)
def test_a_model_is_not_written_over_what_is_no_model_of_its_format(extension, content, tmp_path):
    path = tmp_path / f"thesis{extension}"
    compressed(path, content)
    before = path.read_bytes()
    with pytest.raises(StateError, match="would overwrite another"):
        cb.write(small(), path)
    assert path.read_bytes() == before


def test_a_model_of_one_format_is_not_written_over_one_of_another(tmp_path):
    for mine in EXTENSIONS[:4]:
        for other in EXTENSIONS[:4]:
            cb.write(small(), tmp_path / f"model{other}")
            (tmp_path / f"model{other}").replace(tmp_path / f"x{mine}")
            if mine == other:
                cb.write(small(), tmp_path / f"x{mine}")
                continue
            with pytest.raises(StateError, match="would overwrite another"):
                cb.write(small(), tmp_path / f"x{mine}")


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_model_is_written_over_a_model_or_over_an_empty_file(extension, tmp_path):
    path = tmp_path / f"model{extension}"
    path.touch()
    for model in (small(), cb.zoo.email_campaign().problem.model):
        cb.write(model, path)
        assert cb.read(path).names == model.names


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.json", b'\n {"version": 2, "variables": [], "format" : "causalbandits-model"}'),
        ("x.bif", b"\xef\xbb\xbf// by hand\n/* of\nmany */ network x { } half of it"),
        ("x.xml", b'<?xml version="1.0"?>\n<!-- by hand -->\n<!DOCTYPE BIF [\n<!ELEMENT BIF ( NETWORK )*>\n]>\n<BIF>'),
        ("x.dot", b"# by hand\nStrict Digraph{"),
    ],
)
def test_files_made_by_hand_are_recognised_by_how_they_begin(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    cb.write(small(), tmp_path / name)
    cb.read(tmp_path / name)


def test_a_broken_gzip_file_is_something_else(tmp_path):
    cb.write(small(), tmp_path / "x.bif.gz")
    (tmp_path / "x.bif.gz").write_bytes((tmp_path / "x.bif.gz").read_bytes()[:40])
    with pytest.raises(StateError, match="would overwrite another"):
        cb.write(small(), tmp_path / "x.bif.gz")
    (tmp_path / "x.bif.gz").write_bytes(b"network n {}")
    with pytest.raises(StateError, match="would overwrite another"):
        cb.write(small(), tmp_path / "x.bif.gz")


def test_an_agent_has_the_same_check_to_call(tmp_path):
    """The kind is known by the first "format" in a file, whatever the keys' order."""
    cb.write(small(), tmp_path / "model.json")
    with pytest.raises(StateError, match="a file of the format 'causalbandits-model'"):
        refuse_other_kind(tmp_path / "model.json", "a saved agent", json_recogniser("causalbandits-agent"))
    refuse_other_kind(tmp_path / "none.json", "a saved agent", json_recogniser("causalbandits-agent"))
    cb.Agent(cb.zoo.email_campaign().problem, "c-ucb").save(tmp_path / "agent.json")
    refuse_other_kind(tmp_path / "agent.json", "a saved agent", json_recogniser("causalbandits-agent"))
    both = '{"checksum": "0", "format": "causalbandits-agent", "inner": {"format": "causalbandits-model"}}'
    (tmp_path / "both.json").write_text(both)
    with pytest.raises(StateError, match="causalbandits-agent"):
        cb.write(small(), tmp_path / "both.json")
