"""Where the system starts no threads any more."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import asyncio, os, resource, sys
import wellspring
from wellspring.transfers import _Pending

client = wellspring.Client(timeout=1, insecure=True)
transfer = client._native.fetch(["127.0.0.1:9"], "object")
assert transfer.wait(60)
try:
    # A limit is not the system administrator's.
    if os.geteuid() == 0:
        os.setuid(65_534)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
except OSError:
    sys.exit(77)
try:
    asyncio.run(_Pending(transfer, str).wait_async())
except wellspring.errors.NoHost:
    print("told")
content = bytes(range(256)) * 40
packets = wellspring.encode_object(content, repair=2, symbol_size=10, symbols_per_block=4, threads=8)
assert wellspring.decode_object(packets[:12] + packets[12 + 14:], threads=8) == content
print("coded")
sys.stdout.flush()
# Nothing is to be ended here, and threads that end things cannot be started.
os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it has no such limit, or no transfers")
def test_objects_are_coded_and_transfers_end_without_more_threads() -> None:
    ended = subprocess.run([sys.executable, "-P", "-c", CODE], capture_output=True, text=True)
    if ended.returncode == 77:
        pytest.skip("this process may not have a limit")
    assert (ended.stdout, ended.returncode) == ("told\ncoded\n", 0), ended.stderr
