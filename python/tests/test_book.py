"""The examples of the book's page run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "src" / "python.md"


def test_the_examples_of_the_book_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    # A file, since processes that are started anew import it.
    program = tmp_path / "examples.py"
    program.write_text("\n".join(blocks))
    namespace: dict[str, object] = {"__name__": "__main__", "__file__": str(program)}
    exec(compile(program.read_text(), str(program), "exec"), namespace)
    assert (tmp_path / "7b.bin").stat().st_size == 2_560_000
