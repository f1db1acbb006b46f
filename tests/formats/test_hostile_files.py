"""Hostile files: whatever they hold, they end in a model or an error, in bounded time and memory."""

import gzip
import re
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, FormatError
from causalbandits.formats import bif, dot, json, xmlbif
from oracles import patient

SMALL = """network test {
}
variable x {
  type discrete [ 2 ] { a, b };
}
variable y {
  type discrete [ 3 ] { u, v, w };
}
probability ( x ) {
  table 0.25, 0.75;
}
probability ( y | x ) {
  (a) 0.5, 0.25, 0.25;
  (b) 0.1, 0.2, 0.7;
}
"""


def small():
    return bif.loads(SMALL)


def xml():
    return xmlbif.dumps(small())


def refused_quickly(read, *arguments, seconds=10.0, megabytes=64):
    """The error, if it came in bounded time and memory (both with much room for slow machines)."""
    tracemalloc.start()
    started = time.perf_counter()
    try:
        with pytest.raises(CausalBanditsError) as caught:
            read(*arguments)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - started < seconds
    assert peak < megabytes * 2**20
    assert len(str(caught.value)) < 2000
    return str(caught.value)


def test_a_megabyte_of_label_is_refused():
    label = "a" * 2**20
    assert "line 4, column 25: expected at most 10,000 characters, found 'aaa" in refused_quickly(
        bif.loads, SMALL.replace("{ a,", f"{{ {label},")
    )
    for loads, text in (
        (bif.loads, SMALL.replace("{ a,", f'{{ "{label}",')),
        (bif.loads, SMALL.replace("test {", f"test {{ property {label};")),
        (bif.loads, SMALL.replace("(a)", f"({label})")),
        (xmlbif.loads, xml().replace(">a<", f">{label}<").encode()),
        (json.loads, json.dumps(small()).replace('"a"', f'"{label}"')),
        (dot.loads, f"digraph {{ {label} }}"),
    ):
        assert "expected at most 10,000" in refused_quickly(loads, text)


def wide(parents, own=2):
    """A network in which one variable has many parents and a single row for all of their states."""
    names = [f"p{i}" for i in range(parents)]
    states = " ".join("abcdefghij"[:own])
    text = "network n { }"
    text += "".join(f"variable {name} {{ type discrete [{own}] {{ {states} }}; }}\n" for name in [*names, "z"])
    row = " ".join(["1"] + ["0"] * (own - 1))
    text += "".join(f"probability ({n}) {{ table {row}; }}\n" for n in names)
    return text + f"probability ( z | {', '.join(names)} ) {{ default {row}; }}\n"


def test_a_billion_entry_table_is_refused_before_it_is_made():
    assert bif.loads(wide(9, 2))["z"].table.shape == (2,) * 10
    assert "at most 67,108,864 numbers together, found 10,000,000,090 with" in refused_quickly(bif.loads, wide(9, 10))
    assert "expected at most 31 parents, found 40." in refused_quickly(bif.loads, wide(40))
    text = xmlbif.dumps(bif.loads(wide(5, 2)))
    outcomes = "".join(f"<OUTCOME>{i}</OUTCOME>" for i in range(1000))
    huge = re.sub(r"(<OUTCOME>.</OUTCOME>\n)+", outcomes, text)
    assert "at most 67,108,864 numbers together" in refused_quickly(xmlbif.loads, huge.encode())


def test_many_tables_that_are_each_small_enough_are_refused_together():
    one = wide(25)
    more = "".join(
        f"variable z{i} {{ type discrete [2] {{ a b }}; }} "
        f"probability ( z{i} | {', '.join(f'p{k}' for k in range(25))} ) {{ default 1 0; }}\n"
        for i in range(3)
    )
    assert "numbers together" in refused_quickly(bif.loads, one + more)


def test_missing_rows_are_noticed_before_the_table_is_made():
    assert "expected a row ('a', 'a'" in refused_quickly(bif.loads, wide(24).replace("{ default 1 0; }", "{ }"))


def test_xml_entities_are_refused_whether_bombs_or_files():
    bomb = '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    for declared in (bomb, '<!ENTITY a SYSTEM "file:///etc/passwd">', '<!ENTITY % a "x">'):
        text = xml().replace("<BIF", f"<!DOCTYPE BIF [{declared}]>\n<BIF").replace(">a<", ">&b;<")
        assert "expected no entities beyond XML's own, found 'a'" in refused_quickly(xmlbif.loads, text.encode())
    text = xml().replace("<BIF", '<!DOCTYPE BIF SYSTEM "file:///etc/passwd">\n<BIF').replace(">a<", ">&b;<")
    assert "expected no entities beyond XML's own, found 'b'" in refused_quickly(xmlbif.loads, text.encode())


def test_declared_elements_of_xmlbif_are_no_entities():
    declared = "<!DOCTYPE BIF [<!ELEMENT BIF (NETWORK)*><!ATTLIST BIF VERSION CDATA #REQUIRED>]>"
    assert xmlbif.loads(xml().replace("<BIF", f"{declared}\n<!-- & -->\n<BIF").encode()) == small()


@pytest.mark.parametrize(
    ("loads", "text"),
    [
        (json.loads, "[" * 10**6),
        (json.loads, '{"a":' * 10**5),
        (json.loads, '{"format": "causalbandits-model", "version": 2, "variables": ' + "[" * 10**6),
        (json.loads, json.dumps(small()).replace('"a"', '{"tuple": [' * 900 + "1" + "]}" * 900)),
        (json.loads, json.dumps(small()).replace("0.25", "[" * 900 + "1" + "]" * 900, 1)),
        (json.loads, json.dumps(small()).replace("0.25", "1" * 10**4, 1)),
        (json.loads, json.dumps(small()).replace("0.25", "1" * 400, 1)),
        (json.loads, '"' + '\\"' * 10**5),
        (dot.loads, "digraph " + "{" * 10**6),
        (dot.loads, "digraph { a -> " + "subgraph x {" * 10**5),
        (bif.loads, "network n " + "{" * 10**6),
        (bif.loads, "network n { " + 'property "\\";' * 10**5),
        (bif.loads, "network n { " + "/* " * 10**6),
        (bif.loads, SMALL.replace("0.25,", "0." + "1" * 10**6 + "x,")),
        (bif.loads, SMALL.replace("0.25,", "1 " * 10**5)),
        (xmlbif.loads, b"<BIF><NETWORK>" + b"<VARIABLE>" * 10**6),
        (xmlbif.loads, b"<BIF " + b"a" * 10**6),
        (xmlbif.loads, b"<BIF>" + b"<!-- " * 10**6),
    ],
)
def test_deep_and_long_files_end_in_an_error(loads, text):
    refused_quickly(loads, text, megabytes=200)


def test_a_long_chain_given_backwards_is_read_in_reasonable_time():
    n = 5000
    text = "network n { }" + "".join(f"variable v{i} {{ type discrete [1] {{ a }}; }}\n" for i in reversed(range(n)))
    text += "".join(f"probability ( v{i} {f'| v{i - 1}' if i else ''} ) {{ default 1; }}\n" for i in range(n))
    started = time.perf_counter()
    assert bif.loads(text).order[:2] == ("v0", "v1")
    assert time.perf_counter() - started < 15  # half a second; quadratic search for cycles took minutes


def test_a_group_of_many_arrows_in_few_words_is_refused():
    names = " ".join(f"n{i}" for i in range(2000))
    assert "expected at most 1,000,000 edges, found more" in refused_quickly(
        dot.loads, f"digraph {{ {{ {names} }} -> {{ {names.replace('n', 'm')} }} }}"
    )


def test_a_gzip_bomb_a_broken_and_a_truncated_gzip_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("causalbandits.formats.FILE_LIMIT", 2**23)
    (tmp_path / "bomb.bif.gz").write_bytes(gzip.compress(b" " * 2**26))
    found = refused_quickly(cb.read, tmp_path / "bomb.bif.gz", megabytes=40)
    assert "expected at most 8,388,608 bytes after decompression, found more" in found
    (tmp_path / "large.bif").write_bytes(b" " * 2**24)
    assert "found more" in refused_quickly(cb.read, tmp_path / "large.bif", megabytes=40)
    whole = gzip.compress(SMALL.encode())
    for content in (b"no gzip", whole[:-12], whole[:20], whole[:30] + b"\0\0" + whole[32:]):
        (tmp_path / "broken.bif.gz").write_bytes(content)
        assert "broken.bif.gz: expected a gzip file" in refused_quickly(cb.read, tmp_path / "broken.bif.gz")


def test_bytes_that_are_not_utf8_give_their_place(tmp_path):
    for extension in (".bif", ".json", ".dot"):
        (tmp_path / f"latin{extension}").write_bytes("ä\n bé".encode("latin-1"))
        with pytest.raises(FormatError, match=r", line 1, column 1: expected text in UTF-8, found the byte 0xe4"):
            cb.read(tmp_path / f"latin{extension}")
        (tmp_path / f"latin{extension}").write_bytes("ä\n bé".encode() + "é".encode("latin-1"))
        with pytest.raises(FormatError, match=r"line 2, column 4: expected text in UTF-8, found the byte 0xe9"):
            cb.read(tmp_path / f"latin{extension}")
    (tmp_path / "marked.bif").write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert cb.read(tmp_path / "marked.bif") == small()
    (tmp_path / "marked.bif").write_bytes(b"\xef\xbb\xbf" + b"netw\xe9rk")
    with pytest.raises(FormatError, match=r"line 1, column 5: .* the byte 0xe9"):
        cb.read(tmp_path / "marked.bif")
    latin = xml().replace("UTF-8", "ISO-8859-1").replace(">a<", ">é<").encode("latin-1")
    assert xmlbif.loads(latin)["x"].states == ("é", "b")


@st.composite
def damaged(draw, content):
    """A file after a few deletions, insertions, replacements, copies, or cut short."""
    pieces = (
        b"""{ } ; " | /* // < > &x; [ ] \xff \0 1e999 -1 nan property table default 99999999 \\ -> null , :""".split()
    )
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        stop = min(len(content), start + draw(st.integers(0, 12)))
        kind = draw(st.sampled_from(["delete", "insert", "replace", "repeat", "cut"]))
        new = b"" if kind == "delete" else draw(st.one_of(st.sampled_from(pieces), st.binary(max_size=4)))
        if kind == "cut":
            content = content[:start]
        elif kind == "repeat":
            content = content[:stop] + content[start:stop] + content[stop:]
        else:
            content = content[:start] + new + content[start if kind == "insert" else stop :]
    return content


@pytest.mark.parametrize("extension", [".bif", ".xml", ".json", ".dot", ".bif.gz"])
@settings(patient, max_examples=80)
@given(data=st.data())
def test_a_damaged_file_gives_a_model_or_an_error_of_this_library(extension, data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"damaged{extension}"
    model = cb.CausalModel(small().variables.values(), properties={"": ["name = n", "a; b"], "y": ["p = (1, 2)"]})
    path.unlink(missing_ok=True)  # nothing is written over what is damaged
    cb.write(model, path)
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    started = time.perf_counter()
    try:
        read = cb.read(path)
    except CausalBanditsError as error:
        read = str(error)
    assert path.name in read if isinstance(read, str) else isinstance(read, cb.CausalGraph | cb.CausalModel)
    assert time.perf_counter() - started < 5
