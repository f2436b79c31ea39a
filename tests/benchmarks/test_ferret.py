"""The search program keeps its database honestly, and its check notices lost and wrong answers."""

import numpy as np
import pytest
from tprof.benchmarks import PROGRAMS
from tprof.benchmarks.programs import ferret
from tprof.benchmarks.programs.image_search import database as kept
from tprof.benchmarks.programs.image_search.features import FEATURES
from tprof.benchmarks.programs.image_search.ranking import Database
from tprof.benchmarks.programs.outcome import WrongResultError

IMAGES = 70


@pytest.fixture(scope="module")
def table():
    return kept.make_table(IMAGES, 2)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tprof" / f"ferret-{IMAGES}.table"


def damage(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def answered(table, folder, queries=4):
    """Return answers, originals, paths and database of a few queries, answered without a runtime."""
    database = Database.of(table[:, :FEATURES], table[:, FEATURES])
    originals = np.arange(queries) * 15
    paths = ferret.write_queries(folder, originals)
    answers = ferret.no_answers(queries)
    ferret.search_all(paths, database, answers)
    return answers, originals, paths, database


def test_the_paper_size_asks_1000_images_of_59695():
    originals = ferret.choose_originals("paper")

    assert PROGRAMS["ferret"].instances("paper") == {"ferret": 1_000}
    assert len(set(originals.tolist())) == 1_000
    assert (originals.min(), originals.max() < 59_695) == (0, True)


def test_a_table_does_not_depend_on_the_number_of_threads(table):
    assert (kept.make_table(IMAGES, 1) == table).all()


def test_a_database_is_made_once_and_then_read(cache, table, monkeypatch):
    made = kept.kept_database(IMAGES, 1)
    monkeypatch.setattr(kept, "make_table", None)

    again = kept.kept_database(IMAGES, 1)

    assert cache.exists()
    assert (made.features == table[:, :FEATURES]).all()
    assert (again.features == made.features).all()
    assert (again.weights == made.weights).all()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path, _: damage(path, -5),
        lambda path, _: damage(path, 3),
        lambda path, _: path.write_bytes(path.read_bytes()[:-4]),
        lambda path, _: path.write_bytes(b""),
        lambda path, table: kept.write_table(path, table[:, :, :-1]),
        lambda path, table: kept.write_table(path, table + np.float32(0.01)),
        lambda path, _: path.unlink(),
    ],
    ids=["data", "head", "cut short", "empty", "of another size", "of another extraction", "missing"],
)
def test_a_damaged_or_outdated_database_is_made_again(cache, table, spoil):
    kept.write_table(cache, table)
    assert kept.read_table(cache, IMAGES) is not None
    spoil(cache, table)

    database = kept.kept_database(IMAGES, 2)

    assert (database.features == table[:, :FEATURES]).all()
    assert (kept.read_table(cache, IMAGES) == table).all()
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]


def test_a_database_that_cannot_be_kept_is_used_and_said(tmp_path, monkeypatch):
    (tmp_path / "tprof").write_text("no folder", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.warns(UserWarning, match=r"the image database was not kept in .*ferret-70\.table"):
        database = kept.kept_database(IMAGES, 2)

    assert len(database) == IMAGES


def test_queries_are_answered_from_their_files(table, tmp_path):
    answers, originals, paths, database = answered(table, tmp_path)

    first, second = ferret.check(answers, originals, paths, database)

    assert first == "originals of 4 of 4 distorted copies first and of 4 in the top 10"
    assert second == "4 rankings against plain searches of 70 images"


def test_ferret_notices_a_task_that_was_lost(table, tmp_path):
    answers, originals, paths, database = answered(table, tmp_path)
    answers[2] = ferret.no_answers(1)[0]

    with pytest.raises(WrongResultError, match="left 1 of 4 queries without an answer"):
        ferret.check(answers, originals, paths, database)


@pytest.mark.parametrize("field", ["image", "distance"])
def test_ferret_notices_a_wrong_answer(table, tmp_path, field):
    answers, originals, paths, database = answered(table, tmp_path)
    answers[field][3, 6] += 1

    with pytest.raises(WrongResultError, match="in place 7 for query 3, a plain search puts image"):
        ferret.check(answers, originals, paths, database)
