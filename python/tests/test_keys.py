"""Keys of transfers: where they are from, and that they are read again."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import wellspring
from conftest import own_address
from wellspring import errors


def test_keys_are_those_of_a_directory(tmp_path: Path, data: random.Random) -> None:
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o700)
    (tmp_path / "served").mkdir()
    content = data.randbytes(20_000)
    (tmp_path / "served/object").write_bytes(content)
    wellspring.new_cluster_key(keys)
    with wellspring.serve(tmp_path / "served", own_address(), keys=keys) as host:
        assert wellspring.read(f"{host.address}/object", keys=keys) == content
        with pytest.raises(errors.NoHost) as caught:
            wellspring.read(f"{host.address}/object", insecure=True, timeout=1)
    assert "only with keys" in caught.value.hosts[0].reason


def test_a_directory_that_is_named_has_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "served/object").write_bytes(b"bytes")
    calls: list[Callable[..., Any]] = [
        lambda **access: wellspring.serve(tmp_path / "served", own_address(), **access),
        lambda **access: wellspring.read("127.0.0.1:9/object", **access),
    ]
    # Where there is none, and where none has keys yet.
    for directory in (tmp_path / "nowhere", tmp_path):
        monkeypatch.setenv("WELLSPRING_KEYS", str(directory))
        for call in calls:
            with pytest.raises(errors.UsageError, match="no keys in .*, which WELLSPRING_KEYS names: .*key new"):
                call()
            with pytest.raises(errors.UsageError, match="no keys in .*, which keys= names: .*key new"):
                call(keys=directory)
        with (
            wellspring.serve(tmp_path / "served", own_address(), insecure=True) as host,
            wellspring.Client(insecure=True) as client,
        ):
            assert client.read(f"{host.address}/object") == b"bytes"
    # The user's own may have none.
    monkeypatch.delenv("WELLSPRING_KEYS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nowhere"))
    with wellspring.serve(tmp_path / "served", own_address()) as host:
        assert wellspring.read(f"{host.address}/object") == b"bytes"


def test_keys_that_change_are_read_again(tmp_path: Path) -> None:
    for name in ("keys", "others"):
        (tmp_path / name).mkdir(mode=0o700)
        wellspring.new_cluster_key(tmp_path / name)
    (tmp_path / "served").mkdir()
    (tmp_path / "served/object").write_bytes(b"bytes")
    keys = tmp_path / "keys"
    with wellspring.serve(tmp_path / "served", own_address(), keys=keys) as host:
        client = wellspring.Client(keys=keys, timeout=2)
        source = f"{host.address}/object"
        assert client.read(source) == b"bytes"
        (tmp_path / "others/cluster").replace(keys / "cluster")
        host.reload_keys()
        with pytest.raises(errors.NoHost, match=r"by reload_keys\(\)"):
            client.read(source)
        client.reload_keys()
        assert client.read(source) == b"bytes" == wellspring.read(source, keys=keys)
        (keys / "cluster").unlink()
        for one in (host, client):
            with pytest.raises(errors.UsageError, match="no keys in"):
                one.reload_keys()
        assert client.read(source) == b"bytes", "what cannot be read changes nothing"
        client.close()
        with pytest.raises(ValueError, match="client is closed"):
            client.reload_keys()


def test_without_keys_nothing_is_sent_to_another_machine(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"secret")
    # Addresses of networks for documentation.
    calls: list[Callable[..., Any]] = [
        lambda **access: wellspring.read("192.0.2.1:9/object", timeout=0.3, **access),
        lambda **access: wellspring.put(tmp_path / "file", "[2001:db8::1]:9", timeout=0.3, **access),
        lambda **access: wellspring.stat("127.0.0.1:9,192.0.2.1:9/object", timeout=0.3, **access),
        lambda **access: list(wellspring.ls("192.0.2.1:9/", timeout=0.3, **access)),
    ]
    for call in calls:
        with pytest.raises(errors.UsageError, match="another machine.*\n(.*\n)*.*key new.*insecure=True") as caught:
            call()
        assert "in clear" in {host.kind for host in caught.value.hosts}
        with pytest.raises(errors.NoHost):
            call(insecure=True)


def test_whom_a_host_trusts_is_of_no_use_without_a_key_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "trusted").write_text(f"peer server wpub-{'1' * 64} serve\n")
    (tmp_path / "trusted").chmod(0o600)
    with pytest.raises(errors.UsageError, match="no key of this host.*key new"):
        wellspring.Client(keys=tmp_path)
