"""file2url: which files are told, and how."""

from __future__ import annotations

import io
import os
from hashlib import md5
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from lcc.provider.file2url import command
from lcc.provider.files import ListingFault, find_command, relative_url, split_names, under_docroot
from lcc.provider.mimetable import MimeTable
from lcc.provider.stream_format import StreamCut, StreamReader, read_elements


def file2url(*arguments: str | Path, stdin: bytes = b"") -> Result:
    """Run the command."""
    return CliRunner().invoke(command, [str(argument) for argument in arguments], input=stdin)


def told(result: Result) -> dict[str, dict[str, str]]:
    """What a complete stream tells, by conceptual URL."""
    assert result.exit_code == 0, result.output
    return {element["c"]: element for element in read_elements(io.BytesIO(result.stdout_bytes), StreamReader())}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A small docroot."""
    root = tmp_path / "docroot"
    for name, text in {
        "index.html": "<p>hello",
        "a/index.html": "<p>a",
        "a/one two.txt": "x",
        "a/deep/page.xhtml": "y",
        "logo.PNG": "z",
        "README": "r",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        os.utime(root / name, (1_700_000_000, 1_700_000_000))
    return root


@given(st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=4))
def test_any_file_name_makes_a_relative_url(segments: list[bytes]) -> None:
    names = [segment.replace(b"/", b"_").replace(b"\0", b"_") for segment in segments]
    path = b"/".join(names)
    url = relative_url(path)
    assert url.isascii()
    assert url.isprintable()
    assert not set(url) & set(' <>"{}|\\^`?#:')
    assert unquote_to_bytes(url) == path
    assert urlsplit("http://site/" + url).path == "/" + url


def test_find(site: Path) -> None:
    elements = told(file2url("--find", site, "-name", "*.html"))
    assert elements == {
        "index.html": {"c": "index.html", "m": "text/html", "md5": md5(b"<p>hello").hexdigest(), "len": "8",
                       "mtime": "1700000000"},
        "a/index.html": {"c": "a/index.html", "m": "text/html", "md5": md5(b"<p>a").hexdigest(), "len": "4",
                         "mtime": "1700000000"},
    }  # fmt: skip
    either = ("-name", "*.png", "-o", "-iname", "*.PNG")
    assert set(told(file2url(f"--find={site}/", "-maxdepth", "1", *either))) == {"logo.PNG"}
    everything = file2url("--default-mimetype", "text/plain", "--find", site)
    assert told(everything)["README"]["m"] == "text/plain"
    assert len(told(everything)) == 6


def test_the_docroot_may_be_named_in_any_way(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site)
    assert "index.html" in told(file2url("--find", "."))
    assert "page.xhtml" in told(file2url("--find", "a//deep"))
    (site / "-x").mkdir()
    (site / "-x" / "b.html").write_text("")
    assert set(told(file2url("--find", "-x", "-name", "b*"))) == {"b.html"}


def test_what_find_is_told() -> None:
    assert find_command(b"d", []) == [b"find", b"-H", b"d", b"-type", b"f", b"-print0"]
    assert find_command(b"d", [b"-maxdepth", b"2", b"-xdev", b"-name", b"a"]) == [
        b"find", b"-H", b"d", b"-maxdepth", b"2", b"-xdev", b"(", b"-name", b"a", b")", b"-type", b"f", b"-print0",
    ]  # fmt: skip
    with pytest.raises(ListingFault, match="-print"):
        find_command(b"d", [b"-print"])


@pytest.mark.parametrize("arguments", [("/nonexistent",), (".", "-bogus"), (".", "-name", "x", "-print")])
def test_a_find_that_fails_gives_no_end_mark(arguments: tuple[str, ...]) -> None:
    result = file2url("--find", *arguments)
    assert result.exit_code == 1
    assert "the stream has no end mark" in result.stderr
    with pytest.raises(StreamCut):
        list(read_elements(io.BytesIO(result.stdout_bytes), StreamReader()))


def test_a_docroot_that_is_a_symbolic_link(site: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(site)
    assert told(file2url("--find", link)) == told(file2url("--find", site)) != {}


def test_a_docroot_that_is_none(site: Path) -> None:
    for name, text in (("index.html", "is not a folder"), ("nowhere", "does not exist")):
        result = file2url("--find", site / name)
        assert result.exit_code == 1
        assert f"{site / name} {text}" in result.stderr


def test_a_file_that_is_named_must_exist(site: Path) -> None:
    result = file2url("--docroot", site, "index.html", "index.htm", "x.html")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "index.htm does not exist (and 1 more)" in result.stderr


def test_no_find_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    result = file2url("--find", ".")
    assert result.exit_code == 1
    assert "cannot run find" in result.stderr


def test_names_on_standard_input(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = b"index.html\na/../a/one two.txt\n\na\n" + os.fsencode(site) + b"/logo.PNG"
    assert set(told(file2url("--docroot", site, stdin=names))) == {"index.html", "a/one%20two.txt", "logo.PNG"}
    monkeypatch.chdir(site)
    assert set(told(file2url("-0", stdin=b"index.html\0./a/index.html\0"))) == {"index.html", "a/index.html"}
    assert set(told(file2url("logo.PNG", "a/deep/page.xhtml"))) == {"logo.PNG", "a/deep/page.xhtml"}
    assert told(file2url(stdin=b"")) == {}


def test_names_that_leave_the_docroot(site: Path) -> None:
    result = file2url("--docroot", site, stdin=b"index.html\n../elsewhere.html\n")
    assert result.exit_code == 1
    assert "is outside the docroot" in result.stderr
    assert [file.relative for file in under_docroot([b"/etc/passwd"], b"/")] == [b"etc/passwd"]


def test_names_of_any_bytes(site: Path) -> None:
    name = b"caf\xe9\n\x1b[31m.html"
    (Path(os.fsdecode(os.fsencode(site) + b"/" + name))).write_text("x")
    assert "caf%E9%0A%1B%5B31m.html" in told(file2url("--find", site))
    gone = file2url("--docroot", site, "-0", stdin=b"gone\x1b[31m.html\0")
    assert "\x1b" not in gone.stderr


@given(st.lists(st.binary(min_size=1, max_size=5).filter(lambda name: b"\0" not in name)), st.integers(1, 9))
def test_names_however_they_are_cut(names: list[bytes], size: int) -> None:
    class Drop(io.BytesIO):
        def read1(self, _size: int | None = -1) -> bytes:
            return super().read1(size)

    assert list(split_names(Drop(b"\0".join(names)), b"\0")) == names


def test_a_file_that_is_gone_is_skipped(site: Path) -> None:
    result = file2url("--docroot", site, stdin=b"index.html\ngone.html\nindex.html/x.html\n")
    assert set(told(result)) == {"index.html"}
    assert "gone.html no longer exists" in result.stderr


def test_a_file_that_cannot_be_read_leaves_the_stream_without_end_mark(site: Path) -> None:
    # A symbolic link to itself fails for root, too.
    (site / "loop.html").symlink_to("loop.html")
    result = file2url("--docroot", site, stdin=b"loop.html\nindex.html\n")
    assert result.exit_code == 1
    assert "symbolic links" in result.stderr
    assert b'c="index.html"' in result.stdout_bytes
    with pytest.raises(StreamCut):
        list(read_elements(io.BytesIO(result.stdout_bytes), StreamReader()))


def test_what_is_no_file_is_skipped(site: Path) -> None:
    os.mkfifo(site / "pipe.html")
    (site / "folder.html").mkdir()
    result = file2url("--docroot", site, stdin=b"pipe.html\nfolder.html\n")
    assert told(result) == {}
    assert "pipe.html is not a regular file" in result.stderr
    assert "folder" not in result.stderr


def test_unknown_types_are_skipped_with_a_note(site: Path) -> None:
    for number in range(12):
        (site / f"x{number}.unheard-of").touch()
    result = file2url("--find", site)
    assert len(told(result)) == 5
    assert result.stderr.count("unknown mime type") == 10
    assert "and 3 more of unknown type" in result.stderr
    assert file2url("-q", "--find", site).stderr == ""


def test_options(site: Path, tmp_path: Path) -> None:
    assert told(file2url("--mimetype", "text/x-all", "--find", site))["README"]["m"] == "text/x-all"
    assert set(told(file2url("--index", "index.html", "--find", site, "-name", "*.html"))) == {"./", "a/"}
    assert "mtime" not in told(file2url("--no-mtime", "--find", site))["index.html"]
    table = tmp_path / "mime.types"
    table.write_text("text/x-mine html weird\n")
    assert told(file2url("--mime-types", table, "--find", site))["index.html"]["m"] == "text/x-mine"


@pytest.mark.parametrize(
    "arguments",
    [("--find",), ("--mimetype", "html", "x"), ("--docroot", "/nonexistent"), ("-0", "--find", "."), ("--bogus",)],
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert file2url(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("name", "mimetype"),
    [
        (b"a.html", "text/html"),
        (b"A.HTM", "text/html"),
        (b"a.tar.gz", "application/gzip"),
        (b"a.php", "text/html"),
        (b"a.pdf", "application/pdf"),
        (b"a.md", "text/markdown"),
        (b"a.xhtml", "application/xhtml+xml"),
        (b"a", ""),
        (b".html", ""),
        (b"dir.html/a", ""),
        (b"a.\xff", ""),
    ],
)
def test_mime_types(name: bytes, mimetype: str) -> None:
    assert MimeTable().type_of(name) == mimetype


@pytest.mark.parametrize("name", ["docroot", "docroot/a", "."])
def test_a_folder_as_an_argument_is_a_mistake(site: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Nothing would be told of it, and nothing said."""
    monkeypatch.chdir(site.parent)
    result = file2url("docroot/index.html", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{name} is a folder" in result.stderr
    assert f"next: use file2url --find {name} for all files in it" in result.stderr
    # As find writes them, folders are in the list, too.
    assert len(told(file2url(stdin=b"docroot\ndocroot/a\ndocroot/index.html\n"))) == 1
