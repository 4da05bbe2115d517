#!/usr/bin/env python3
"""Prints the software bill of materials (CycloneDX 1.5, JSON) of the packages named.

    sbom.py TARGET PACKAGE...

It has every crate that is built into them for that target, by cargo's own account, with licences and the
checksums of Cargo.lock. Crates that only build scripts or tests use are left out.
"""

import json
import subprocess
import sys
import tomllib


def main(target, roots):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    with open(metadata["workspace_root"] + "/Cargo.lock", "rb") as file:
        locked = tomllib.load(file)["package"]
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in locked}

    def built_into(id):
        return [d["pkg"] for d in nodes[id]["deps"] if any(k["kind"] is None for k in d["dep_kinds"])]

    def macro(package):
        return any("proc-macro" in built["kind"] for built in package["targets"])

    waiting = [id for id, package in packages.items() if package["name"] in roots]
    if len(waiting) != len(roots):
        sys.exit(f"not all of {roots} are packages here")
    found = set()
    while waiting:
        id = waiting.pop()
        # A macro runs in the compiler: nothing of it is in the program.
        if id not in found and not macro(packages[id]):
            found.add(id)
            waiting += built_into(id)

    def reference(package):
        return f"pkg:cargo/{package['name']}@{package['version']}"

    def component(package):
        entry = {
            "type": "application" if package["name"] in roots else "library",
            "bom-ref": reference(package),
            "name": package["name"],
            "version": package["version"],
            "purl": reference(package),
        }
        if package.get("license"):
            entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        checksum = checksums.get((package["name"], package["version"]))
        if checksum:
            entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return entry

    chosen = sorted((packages[id] for id in found), key=reference)
    version = next(p["version"] for p in chosen if p["name"] in roots)
    json.dump({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "wellspring",
                                   "name": "wellspring", "version": version}},
        "components": [component(package) for package in chosen],
        "dependencies": [
            {"ref": reference(package),
             "dependsOn": sorted(reference(packages[id]) for id in built_into(package["id"]) if id in found)}
            for package in chosen
        ],
    }, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
