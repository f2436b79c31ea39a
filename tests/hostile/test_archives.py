"""Archives of sessions: what comes home is what was sent, and what is no session leaves nothing."""

import gzip
import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import traces
from support.properties import examples

import tprof
from tprof.trace.archive import Unpacker, files_of, pack


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return traces.write(tmp_path_factory.mktemp("archives") / "a.tprof")


@pytest.fixture(scope="module")
def packed(session):
    return b"".join(pack(session))


def unpack(content, directory, *, step=1000, keep=False):
    with Unpacker(directory) as unpacker:
        for begin in range(0, len(content), step):
            unpacker.feed(content[begin : begin + step])
        return unpacker.close(keep_partial=keep)


def archive(*entries):
    """Return an archive of entries (name, content, type)."""
    with io.BytesIO() as made:
        with tarfile.open(fileobj=made, mode="w:gz", format=tarfile.USTAR_FORMAT) as tar:
            for name, content, kind in entries:
                entry = tarfile.TarInfo(name)
                entry.type, entry.size = kind, len(content)
                entry.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
                tar.addfile(entry, io.BytesIO(content))
        return made.getvalue()


def test_a_session_that_came_home_holds_the_same_bytes(session, packed, tmp_path):
    assert unpack(packed, tmp_path / "b.tprof") is None

    assert traces.contents(tmp_path / "b.tprof") == traces.contents(session)
    assert [path.name for path in tmp_path.iterdir()] == ["b.tprof"]


def test_pieces_may_have_any_size(session, packed, tmp_path_factory):
    @examples(50, quick=8)
    @given(st.lists(st.integers(1, 2000), min_size=1, max_size=50))
    def check(sizes):
        directory = tmp_path_factory.mktemp("pieces") / "b.tprof"
        with Unpacker(directory) as unpacker:
            begin = 0
            while begin < len(packed):
                for size in sizes:
                    unpacker.feed(packed[begin : begin + size])
                    begin += size
            unpacker.close()
        assert traces.contents(directory) == traces.contents(session)

    check()


def test_chunks_have_the_size_that_is_asked_for(session, packed):
    chunks = list(pack(session, chunk_bytes=100))

    assert {len(chunk) for chunk in chunks[:-1]} == {100}
    assert gzip.decompress(b"".join(chunks)) == gzip.decompress(packed)


def test_an_archive_that_ends_early_leaves_nothing(packed, tmp_path):
    with pytest.raises(tprof.TraceError, match="ended early"):
        unpack(packed[:-20], tmp_path / "b.tprof")

    assert list(tmp_path.iterdir()) == []


def test_of_an_archive_that_ends_early_what_came_is_kept_if_asked(session, tmp_path):
    half = b"".join(pack(session, chunk_bytes=64))
    missing = unpack(half[: len(half) * 3 // 4], tmp_path / "b.tprof", keep=True)

    assert missing.startswith("the transfer ended after")
    assert isinstance(traces.read_or_refuse(tmp_path / "b.tprof"), tprof.Trace)


MANIFEST = ("manifest.json", b"{}", tarfile.REGTYPE)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (("threads/../../evil", b"x", tarfile.REGTYPE), "no file of a session"),
        (("/etc/evil", b"x", tarfile.REGTYPE), "no file of a session"),
        (("../evil", b"x", tarfile.REGTYPE), "no file of a session"),
        (("threads/..", b"x", tarfile.REGTYPE), "no file of a session"),
        (("threads/a/b", b"x", tarfile.REGTYPE), "no file of a session"),
        (("private/key", b"x", tarfile.REGTYPE), "no file of a session"),
        (("threads/\n.samples", b"x", tarfile.REGTYPE), "no file of a session"),
        (("threads/a.samples", b"", tarfile.SYMTYPE), "links, folders or devices"),
        (("threads/a.samples", b"", tarfile.LNKTYPE), "links, folders or devices"),
        (("threads", b"", tarfile.DIRTYPE), "links, folders or devices"),
        (("threads/fifo", b"", tarfile.FIFOTYPE), "links, folders or devices"),
        (("manifest.json", b"{}", tarfile.REGTYPE), "twice"),
    ],
)
def test_an_archive_with_anything_else_is_refused_and_leaves_nothing(entry, reason, tmp_path):
    with pytest.raises(tprof.TraceError, match=reason):
        unpack(archive(MANIFEST, entry), tmp_path / "b.tprof")

    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_unpacks_to_more_than_is_allowed_is_refused(tmp_path):
    bomb = archive(MANIFEST, ("threads/00000000.samples", bytes(1 << 20), tarfile.REGTYPE))

    with (
        Unpacker(tmp_path / "b.tprof", most_bytes=1 << 19) as unpacker,
        pytest.raises(tprof.TraceError, match="larger"),
    ):
        unpacker.feed(bomb)
    assert list(tmp_path.iterdir()) == []


def test_damage_is_noticed(packed, tmp_path):
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0x55

    with pytest.raises(tprof.TraceError, match=r"refused: it .*; send the session again"):
        unpack(bytes(damaged), tmp_path / "b.tprof")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_directory_is_not_touched(session, tmp_path):
    target = traces.copy(session, tmp_path / "b.tprof")
    with pytest.raises(tprof.UsageError, match="exists"):
        Unpacker(target)
    assert traces.contents(target) == traces.contents(session)


def test_links_and_files_of_a_user_are_not_sent(session, tmp_path):
    copy = traces.copy(session, tmp_path / "a.tprof")
    (copy / "notes.txt").write_text("mine")
    (copy / "threads" / "link.samples").symlink_to("/etc/passwd")
    unpack(b"".join(pack(copy)), tmp_path / "b.tprof")

    assert traces.contents(tmp_path / "b.tprof") == traces.contents(session)


def test_the_manifest_is_sent_first(session):
    """Of an archive that ends early a session can be read then."""
    names = files_of(session)

    assert names[0] == "manifest.json"
    assert names[1:] == sorted(names[1:])
    assert min(names) != "manifest.json"
