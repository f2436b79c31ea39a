"""A user's JSON, TOML and CSV give plain values of bounded depth with finite numbers, or a clause that says why."""

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import sys
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import hostile_files
from support.properties import examples

from tprof.trace.plain_values import (
    LARGEST_INTEGER,
    MOST_LEVELS,
    floats,
    is_finite,
    listed,
    number,
    parse_cells,
    parse_json,
    parse_toml,
    parse_trace_json,
    shown,
    whole,
)
from tprof.trace.user_files import UnreadableError, read_json, read_text

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64) + 1, 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(value=PLAIN)
@examples(400)
def test_what_json_can_say_comes_back(value):
    text = json.dumps(value)

    assert parse_json(text) == value
    assert parse_trace_json(text.encode()) == value


def parsed_or_refused(parse, text):
    try:
        return parse(text), None
    except ValueError as error:
        return None, str(error)


def parts(value):
    yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(part)


@given(text=st.text(alphabet='[]{}",:0123456789.eE+-\\ naNIfty', max_size=200))
@examples(1000)
def test_any_text_is_plain_values_or_a_clause(text):
    for parse in (parse_json, lambda text: parse_trace_json(text.encode())):
        value, clause = parsed_or_refused(parse, text)

        assert clause is None or (clause and "\n" not in clause)
        assert all(is_finite(part) for part in parts(value) if type(part) in (int, float))


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_values_are_nested_up_to_a_bound(opening, closing):
    assert parse_json(opening * (MOST_LEVELS - 1) + "[]" + closing * (MOST_LEVELS - 1)) is not None
    with pytest.raises(ValueError, match=f"nested more than {MOST_LEVELS} levels deep"):
        parse_json(opening * MOST_LEVELS + "[]" + closing * MOST_LEVELS)


def test_brackets_in_a_text_nest_nothing():
    text = "[{" * 1000 + '"\\' + "]}" * 1000

    assert parse_json(json.dumps({"a": [text], text: 1})) == {"a": [text], text: 1}


def test_nested_json_does_not_overflow_the_stack_of_a_program_that_raised_the_limit():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        for content in ("[" * hostile_files.DEEP, '{"a":' * hostile_files.DEEP, "[" * 10**6 + "]" * 10**6):
            with pytest.raises(ValueError, match="nested more than"):
                parse_json(content)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' stands twice in one object"),
        ('{"\\u001b[31m": 1, "\\u001b[31m": 2}', r"the key '\\x1b\[31m' stands twice"),
        ("[NaN]", "NaN is no number"),
        ("[-Infinity]", "-Infinity is no number"),
        ("1e999", "the number '1e999' is too large"),
        ("9" * 400, "the number '999.*…' is too long"),
        ("-" + "9" * 5000, "the number '-999.*…' is too long"),
        ("1.5e", "it is no JSON"),
        ("", "it is no JSON .*line 1 column 1"),
    ],
)
def test_what_a_reader_could_not_count_on_is_refused_with_its_place(text, says):
    with pytest.raises(ValueError, match=says):
        parse_json(text)


def test_integers_beyond_64_bits_are_floats():
    assert parse_json(str(LARGEST_INTEGER - 1)) == LARGEST_INTEGER - 1
    assert type(parse_json(str(LARGEST_INTEGER - 1))) is int
    assert type(parse_json(str(LARGEST_INTEGER))) is float
    assert parse_json("1" + "0" * 40) == 1e40


def test_what_is_no_number_in_a_trace_is_missing():
    text = '{"a": NaN, "b": [Infinity, 1, 1e999, -' + "9" * 5000 + '], "a": 2.5}'

    assert parse_trace_json(text.encode()) == {"a": 2.5, "b": [None, 1, None, None]}


@given(value=st.floats(allow_nan=False, allow_infinity=False))
@examples(300)
def test_a_number_is_what_python_wrote(value):
    assert number(repr(value)) == value


@given(text=st.text(max_size=12) | st.text(alphabet="0123456789+-.eE_", max_size=12))
@examples(600)
def test_a_text_is_a_finite_number_or_none(text):
    value, clause = parsed_or_refused(number, text)

    if clause is not None:
        assert "number" in clause
    else:
        assert math.isfinite(value)
        assert value == float(text)
        assert text.isascii()
        assert "_" not in text


@given(texts=st.lists(st.text(alphabet="0123456789+-.eE_", max_size=6) | st.floats().map(repr), max_size=4))
@examples(600)
def test_many_texts_are_the_numbers_that_each_is(texts):
    values, clause = parsed_or_refused(floats, texts)
    each, first = parsed_or_refused(lambda texts: [number(text) for text in texts], texts)

    assert (values, clause) == (each, first)


@given(text=st.text(max_size=6) | st.integers(0, 2**80).map(str))
@examples(300)
def test_whole_numbers_are_decimal_digits_up_to_a_bound(text):
    found = whole(text, 2**32)

    digits = bool(text) and all(one in "0123456789" for one in text)
    assert found == (int(text) if digits and int(text) <= 2**32 else None)


def test_the_bound_of_a_whole_number_is_the_largest_one():
    assert (whole("7", 7), whole("8", 7)) == (7, None)


def test_whole_numbers_of_many_digits_are_none():
    assert whole("9" * 10_000_000) is None
    assert whole("\N{SUPERSCRIPT TWO}") is None


def test_any_value_is_shown_in_one_short_line():
    for value in (10**10_000, float("nan"), "\x1b[31m\n", "x" * 10_000, [[]] * 1000, {"a": "\ud800"}, object()):
        said = shown(value)

        assert len(said) <= 60
        assert said.isprintable()


def test_names_are_listed_as_they_are_where_they_can_be_read():
    assert listed(["time_s", "E (J)", "a\nb", "x" * 100]) == "time_s, E (J), 'a\\nb', 'xx" + "x" * 55 + "…'"
    assert listed(range(40)).endswith("28, 29 and 10 more")


TOML = {"tau": 1e-9, "count": 3, "caches": {"L1": 2e-11}, "list": [[1, 2.5], "a.b.c"]}


def test_toml_says_what_it_says_to_python():
    text = 'tau = 1e-9\ncount = 3\nlist = [[1, 2.5], "a.b.c"]\n[caches]\nL1 = 2e-11\n'

    assert parse_toml(text) == TOML == tomllib.loads(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = = 1", "it is no TOML"),
        ("a = inf", "a number that is too large, or none"),
        ("a = nan", "a number that is too large, or none"),
        ("a = 0x" + "f" * 40, "a number that is too large, or none"),
        ("a = " + "9" * 5000, "a number that is too large, or none"),
        ("a = " + "[" * 100 + "]" * 100, "nested more than 64 levels deep"),
        ("a = " + "[" * 10_000, "nested more than 64 levels deep"),
        (".".join(["a"] * 100) + " = 1", "nested more than 64 levels deep"),
        ("[" + " . ".join(["'a b'", '"c"'] * 50_000) + "]", "nested more than 64 levels deep"),
    ],
)
def test_toml_that_a_reader_could_not_count_on_is_refused(text, says):
    with pytest.raises(ValueError, match=says):
        parse_toml(text)


CELL = st.text(alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=6)


@given(rows=st.lists(st.lists(CELL, min_size=3, max_size=3), max_size=5))
@examples(300)
def test_a_table_comes_back_as_it_was_written(rows):
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([["a", "b", "c"], *rows])

    cells = parse_cells(text.getvalue())

    assert (cells.names, cells.rows) == (("a", "b", "c"), rows)


def test_lines_are_those_of_the_file():
    cells = parse_cells('a,b\n\n1,"x\ny"\n\n2\n')

    assert cells.rows == [["1", "x\ny"], ["2", ""]]
    assert cells.lines == [4, 6]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ("\n\n", "it is empty"),
        ("a,b,a\n", "two columns are called 'a'"),
        ("a,b\n1,2\n1,2,3\n", r"rows have more cells than there are column names \(line 3\)"),
        ('a,b\n1,"2\n3,4\n', "it is no CSV .*line 3"),
        ("a," * 10_001 + "a\n", "it has more than 10000 columns"),
        ("a,b\n" + "x" * 200_000 + ",1\n", "it is no CSV .*field larger than field limit"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(text, says):
    with pytest.raises(ValueError, match=says):
        parse_cells(text)


def test_columns_without_a_name_are_kept_where_they_hold_something():
    assert parse_cells("a,,\n1,,\n").names == ("a",)
    assert parse_cells(",a,\n0,1,\n").names == ("Unnamed: 0", "a")


@pytest.mark.parametrize(("ending", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_compressed_files_are_read_up_to_a_bound_and_refused_when_damaged(tmp_path, ending, compress):
    path = tmp_path / f"t.csv.{ending}"

    path.write_bytes(compress(b"a,b\n"))
    assert read_text(path, unpacked=True) == "a,b\n"

    path.write_bytes(compress(bytes(10_000_000)))
    with pytest.raises(UnreadableError, match="it has more than 1000000 bytes"):
        read_text(path, 1_000_000, unpacked=True)

    for content in (b"a,b\n", compress(b"a,b\n" * 100)[:-9]):
        path.write_bytes(content)
        with pytest.raises(UnreadableError, match="what is compressed in it is damaged"):
            read_text(path, unpacked=True)


def test_a_file_of_a_user_may_be_a_link_and_begin_with_a_mark(tmp_path):
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    (tmp_path / "b.json").symlink_to(tmp_path / "a.json")

    assert read_json(tmp_path / "b.json") == {"a": 1}
    with pytest.raises(UnreadableError, match="it has 11 bytes, at most 10 are read"):
        read_json(tmp_path / "b.json", 10)
