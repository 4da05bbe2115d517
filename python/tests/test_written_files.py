"""When a file that is written is put to its hosts: if it is whole, and never without a word if it is not."""

from __future__ import annotations

import bz2
import contextlib
import gc
import gzip
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

import wellspring
from conftest import own_address


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A file that is served, and its address."""
    (tmp_path / "served").mkdir()
    file = tmp_path / "served/object"
    file.write_bytes(b"good")
    with wellspring.serve(tmp_path / "served", own_address(), allow_put=True, allow_overwrite=True) as host:
        yield file, f"wellspring://{host.address}/object"


def opened(url: str, mode: str = "wb", **options: Any) -> Any:
    """A file that is open by the file system itself."""
    fs, path = fsspec.url_to_fs(url)
    return fs.open(path, mode, **options)


def in_circle(url: str) -> None:
    circle: list[Any] = [opened(url)]
    circle.append(circle)
    circle[0].write(b"half")


DROPPED: dict[str, Callable[[str], object]] = {
    "bytes": lambda url: opened(url).write(b"half"),
    "text": lambda url: opened(url, "w").write("half"),
    "compressed": lambda url: opened(url, compression="gzip").write(b"half"),
    "compressed text": lambda url: opened(url, "wt", compression="gzip").write("half"),
    "fsspec's": lambda url: fsspec.open(url, "wb").open().write(b"half"),
    "fsspec's text": lambda url: fsspec.open(url, "w").open().write("half"),
    "fsspec's compressed text": lambda url: fsspec.open(url, "w", compression="bz2").open().write("half"),
    "in a circle": in_circle,
}


@pytest.mark.parametrize("name", DROPPED)
def test_a_file_that_nobody_closed_is_not_put(place: tuple[Path, str], name: str) -> None:
    file, url = place
    with pytest.warns(RuntimeWarning, match="object was not put, since nobody closed it"):
        DROPPED[name](url)
        gc.collect()
    assert file.read_bytes() == b"good"


@pytest.mark.parametrize("mode", ["wb", "w"])
@pytest.mark.parametrize("end", ["", "raise OSError('the writer failed')"])
def test_a_file_that_is_open_when_the_interpreter_exits_is_not_put(
    place: tuple[Path, str], mode: str, end: str
) -> None:
    file, url = place
    code = (
        "import sys, fsspec\n"
        "fs, path = fsspec.url_to_fs(sys.argv[1])\n"
        f"file = fs.open(path, {mode!r})\n"
        f"file.write(b'half' if {mode!r} == 'wb' else 'half')\n"
        f"{end}\n"
    )
    ended = subprocess.run([sys.executable, "-P", "-c", code, url], stderr=subprocess.PIPE, text=True)
    assert ended.returncode == (1 if end else 0)
    assert "object was not put, since nobody closed it" in ended.stderr
    assert file.read_bytes() == b"good"


def opened_in_a_handler(url: str) -> None:
    try:
        raise FileNotFoundError
    except FileNotFoundError:
        file = opened(url)
    file.write(b"whole")
    file.close()


def closed_in_a_handler(url: str) -> None:
    file = opened(url)
    try:
        file.write(b"whole")
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        file.close()


def closed_by_a_generator(url: str) -> None:
    def write() -> Generator[None, bytes, None]:
        file = opened(url)
        try:
            while True:
                file.write((yield))
        finally:
            file.close()

    writer = write()
    next(writer)
    writer.send(b"whole")
    writer.close()


def written_in_a_handler(url: str) -> None:
    try:
        raise OSError("the usual way failed")
    except OSError:
        with fsspec.open(url, "wb") as file:
            file.write(b"whole")


def written_while_a_with_statement_is_left(url: str) -> None:
    class Fallback:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *error: object) -> bool:
            with opened(url, "w") as file:
                file.write("whole")
            return True

    with Fallback():
        raise OSError("the usual way failed")


def kept_until_an_error_is_over(url: str) -> None:
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(opened(url))
        stack.enter_context(contextlib.suppress(OSError))
        file.write(b"whole")
        raise OSError("not of interest")


WHOLE: dict[str, Callable[[str], None]] = {
    "opened in a handler": opened_in_a_handler,
    "closed in a handler": closed_in_a_handler,
    "closed by a generator": closed_by_a_generator,
    "written in a handler": written_in_a_handler,
    "written while a with statement is left": written_while_a_with_statement_is_left,
    "kept until an error is over": kept_until_an_error_is_over,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", WHOLE)
def test_a_file_that_is_closed_is_put_whatever_was_handled_meanwhile(place: tuple[Path, str], name: str) -> None:
    file, url = place
    WHOLE[name](url)
    assert file.read_bytes() == b"whole"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mode", ["wb", "wt"])
def test_closing_what_compresses_into_a_file_puts_it(place: tuple[Path, str], mode: str) -> None:
    file, url = place
    for make in (opened, fsspec.open):
        with make(url, mode, compression="gzip") as packed:
            packed.write(b"whole" if mode == "wb" else "whole")
        assert gzip.decompress(file.read_bytes()) == b"whole"
        file.write_bytes(b"good")


class Failed(Exception):
    """Of the writer."""


def fails(file: Any, text: bool = False) -> None:
    with file as writer:
        writer.write("half" if text else b"half")
        raise Failed


def fails_again(url: str) -> None:
    try:
        raise Failed
    except Failed:
        with fsspec.open(url, "wb") as file:
            file.write(b"half")
            raise


def fails_through_a_wrapper(url: str) -> None:
    """As handles of pandas are."""

    class Handle:
        def __enter__(self) -> Any:
            self.file = opened(url)
            return self.file

        def __exit__(self, *error: object) -> None:
            self.file.close()

    fails(Handle())


def fails_as_a_context_is_told(url: str) -> None:
    file = opened(url)
    try:
        file.write(b"half")
        raise Failed
    except Failed as error:
        file.__exit__(type(error), error, error.__traceback__)
        raise


LEFT: dict[str, Callable[[str], None]] = {
    "bytes": lambda url: fails(opened(url)),
    "text": lambda url: fails(opened(url, "w"), text=True),
    "compressed": lambda url: fails(opened(url, compression="gzip")),
    "fsspec's": lambda url: fails(fsspec.open(url, "wb")),
    "fsspec's text": lambda url: fails(fsspec.open(url, "w"), text=True),
    "fsspec's compressed text": lambda url: fails(fsspec.open(url, "w", compression="bz2"), text=True),
    "an error that is raised again": fails_again,
    "a wrapper": fails_through_a_wrapper,
    "a context that is told": fails_as_a_context_is_told,
}


@pytest.mark.parametrize("name", LEFT)
def test_a_file_whose_with_statement_an_error_leaves_is_not_put(place: tuple[Path, str], name: str) -> None:
    file, url = place
    with (
        pytest.warns(RuntimeWarning, match="object was not put, since an error left its `with` statement"),
        pytest.raises(Failed),
    ):
        LEFT[name](url)
    assert file.read_bytes() == b"good"


def test_a_file_that_some_hosts_have_is_replaced_there(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
    (folders[1] / "object").write_bytes(b"before")
    with contextlib.ExitStack() as stack:
        serve = wellspring.serve
        hosts = [serve(folder, own_address(), allow_put=True, allow_overwrite=True) for folder in folders]
        addresses = ",".join(stack.enter_context(host).address for host in hosts)
        with opened(f"wellspring://{addresses}/object") as file:
            file.write(b"whole")
    assert [(folder / "object").read_bytes() for folder in folders] == [b"whole"] * 3


NOT_CLOSED: dict[str, Callable[[str], Any]] = {
    "text": lambda url: opened(url, "w"),
    "gzip": lambda url: opened(url, compression="gzip"),
    "compressed text": lambda url: opened(url, "wt", compression="bz2"),
    "bytes": opened,
}


@pytest.mark.parametrize("name", NOT_CLOSED)
def test_a_file_that_is_open_at_the_end_of_a_transaction_is_not_put(place: tuple[Path, str], name: str) -> None:
    file, url = place
    fs, _ = fsspec.url_to_fs(url)
    with pytest.warns(RuntimeWarning, match="object was not put, since nobody closed it"), fs.transaction:
        writer = NOT_CLOSED[name](url)
        writer.write("half" if "text" in name else b"half")
    assert file.read_bytes() == b"good"
    with contextlib.suppress(ValueError):
        writer.close()  # Its text has no place any more.
    assert file.read_bytes() == b"good"
    with fs.transaction, opened(url, "w") as writer:
        writer.write("whole")
    assert file.read_bytes() == b"whole"


def failing_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next put fails as if no host took it."""
    put = wellspring.Client.put
    failures = [wellspring.errors.TooFewReceivers("no host has it")]

    def failing(client: wellspring.Client, *args: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return put(client, *args, **options)

    monkeypatch.setattr(wellspring.Client, "put", failing)


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "text": lambda content: content,
    "gzip": gzip.decompress,
    "compressed text": bz2.decompress,
    "bytes": lambda content: content,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", NOT_CLOSED)
def test_a_file_whose_put_failed_is_put_when_it_is_closed_again(
    place: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file, url = place
    failing_once(monkeypatch)
    writer = NOT_CLOSED[name](url)
    writer.write("whole" if "text" in name else b"whole")
    with pytest.raises(wellspring.errors.TooFewReceivers):
        writer.close()
    assert file.read_bytes() == b"good" and not writer.closed
    for _ in range(2):
        writer.close()
        assert PACKED[name](file.read_bytes()) == b"whole" and writer.closed


@pytest.mark.parametrize("name", NOT_CLOSED)
def test_a_file_whose_put_failed_and_that_nobody_closes_again_is_not_put(
    place: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file, url = place
    failing_once(monkeypatch)
    with pytest.warns(RuntimeWarning, match="object was not put, since putting it failed, and nobody closed it once"):
        writer = NOT_CLOSED[name](url)
        writer.write("whole" if "text" in name else b"whole")
        with pytest.raises(wellspring.errors.TooFewReceivers):
            writer.close()
        del writer
        gc.collect()
    assert file.read_bytes() == b"good"
