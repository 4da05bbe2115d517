"""What the wheel has beside its modules."""

from __future__ import annotations

from importlib import metadata


def test_the_wheel_has_its_licences() -> None:
    files = metadata.files("wellspring-transfer") or []
    texts = {file.name: file.read_text() for file in files if "licenses" in file.parts}
    assert texts.keys() == {"LICENSE-APACHE", "LICENSE-MIT"}
    assert "Permission is hereby granted" in texts["LICENSE-MIT"] and "Apache License" in texts["LICENSE-APACHE"]
