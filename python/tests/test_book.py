"""The examples of the book's page and of the README run as they stand."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import HostProcess

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "src" / "python.md"


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


@pytest.mark.full
def test_the_example_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (ROOT / "README.md").read_text()
    monkeypatch.chdir(tmp_path)
    Path("README.md").write_text(readme)
    [example] = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    exec(example, {})
    assert Path("copy.md").read_text() == readme
    assert Path("incast.png").stat().st_size > 5_000


@pytest.fixture
def three_nodes(tmp_path: Path) -> Iterator[tuple[list[Path], list[HostProcess]]]:
    """Three hosts, each with a folder of its own."""
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
    hosts = [HostProcess(folder) for folder in folders]
    yield folders, hosts
    for host in hosts:
        host.kill()


def test_the_recipe_for_pytorch_runs(three_nodes: tuple[list[Path], list[HostProcess]], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="`TORCH=1 make python-full` installs PyTorch, of several gigabytes")
    import numpy as np

    folders, hosts = three_nodes
    [recipe] = re.findall(r"^```python,torch\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    # A module, which workers that are started anew import.
    (tmp_path / "recipe.py").write_text(recipe)
    sys.path.insert(0, str(tmp_path))
    from recipe import Samples, checkpoint, restore

    samples = np.random.default_rng(1).standard_normal((12, 40), dtype=np.float32)
    for n, sample in enumerate(samples):
        for folder in folders:
            np.save(folder / f"{n}.npy", sample)
    addresses = ",".join(host.address for host in hosts)
    dataset = Samples(addresses, [f"{n}.npy" for n in range(12)])
    for start in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context=start)
        assert (torch.cat(list(loader)).numpy() == samples).all()
    model, other = torch.nn.Linear(40, 3), torch.nn.Linear(40, 3)
    checkpoint(model, addresses, "step-1.pt")
    assert len({(folder / "step-1.pt").read_bytes() for folder in folders}) == 1
    hosts[0].kill()
    restore(other, addresses, "step-1.pt")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
