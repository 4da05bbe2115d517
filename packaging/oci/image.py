#!/usr/bin/env python3
"""Writes an OCI image layout (a folder) of static binaries, without a daemon.

    image.py OUT VERSION ARCH=BINARY...

OUT can be copied to a registry or loaded by any tool that reads OCI layouts; a manifest.json beside it is what `docker load`
reads where its images are not containerd's. The same binaries give the same bytes. `image.py --unpack OUT ARCH ROOT` writes the
image's files below ROOT.
"""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
# Nobody in particular: what Kubernetes' restricted profile takes.
USER = 65532
FOLDERS = {"usr": 0, "usr/bin": 0, "etc": 0, "etc/wellspring": 0, "tmp": USER, "var": 0,
           "var/lib": 0, "var/lib/wellspring": USER, "var/cache": 0, "var/cache/wellspring": USER}
# Not variables of the image: those would come before a configuration file that is mounted.
SETTINGS = b"""\
# Another file can be mounted here, or named by --config.
[serve]
dir = "/var/lib/wellspring"
cache = "/var/cache/wellspring"
"""


def layer(binary):
    """A layer with the program, and the folders that it uses: the archive, compressed and not."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, owner in FOLDERS.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o755, owner, owner
            archive.addfile(entry)
        with open(binary, "rb") as file:
            program = file.read()
        for name, mode, data in (("usr/bin/wellspring", 0o755, program),
                                 ("etc/wellspring/wellspring.toml", 0o644, SETTINGS)):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = mode, len(data)
            archive.addfile(entry, io.BytesIO(data))
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=6) as archive:
        archive.write(raw.getvalue())
    return packed.getvalue(), raw.getvalue()


def path(descriptor):
    """Where a blob lies in the layout."""
    return "blobs/" + descriptor["digest"].replace(":", "/")


def write(out, version, binaries):
    os.makedirs(os.path.join(out, "blobs", "sha256"), exist_ok=True)

    def blob(data, kind, **more):
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(out, "blobs", "sha256", digest), "wb") as file:
            file.write(data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data), **more}

    def document(value, kind, **more):
        return blob(json.dumps(value, indent=1, sort_keys=True).encode(), kind, **more)

    manifests, images = [], []
    for arch, binary in binaries:
        packed, raw = layer(binary)
        config = document({
            "architecture": arch,
            "os": "linux",
            "config": {
                "User": f"{USER}:{USER}",
                "Env": ["PATH=/usr/bin"],
                "Entrypoint": ["/usr/bin/wellspring"],
                "Cmd": ["serve"],
                "ExposedPorts": {"4711/udp": {}, "4711/tcp": {}},
                "Volumes": {"/var/lib/wellspring": {}, "/var/cache/wellspring": {}},
                "WorkingDir": "/var/lib/wellspring",
                "StopSignal": "SIGTERM",
                "Labels": {"org.opencontainers.image.version": version},
            },
            "rootfs": {"type": "layers",
                       "diff_ids": ["sha256:" + hashlib.sha256(raw).hexdigest()]},
        }, CONFIG)
        data = blob(packed, LAYER)
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [data]}
        # It has one architecture a name: the plain one is of the first.
        tags = [f"wellspring:{version}-{arch}"] + ([] if images else [f"wellspring:{version}"])
        images.append({"Config": path(config), "RepoTags": tags, "Layers": [path(data)]})
        manifests.append(document(manifest, MANIFEST,
                                  platform={"architecture": arch, "os": "linux"}))
    index = document({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}, INDEX,
                     annotations={"org.opencontainers.image.ref.name": version,
                                  "io.containerd.image.name":
                                  f"docker.io/library/wellspring:{version}"})
    with open(os.path.join(out, "index.json"), "w") as file:
        json.dump({"schemaVersion": 2, "mediaType": INDEX, "manifests": [index]}, file)
    with open(os.path.join(out, "oci-layout"), "w") as file:
        json.dump({"imageLayoutVersion": "1.0.0"}, file)
    with open(os.path.join(out, "manifest.json"), "w") as file:
        json.dump(images, file)


def unpack(out, arch, root):
    def blob(descriptor):
        kind, digest = descriptor["digest"].split(":")
        with open(os.path.join(out, "blobs", kind, digest), "rb") as file:
            data = file.read()
        found = hashlib.sha256(data).hexdigest()
        if kind != "sha256" or found != digest or len(data) != descriptor["size"]:
            sys.exit(f"{out}: blob {digest} is damaged")
        return data

    with open(os.path.join(out, "index.json")) as file:
        top = json.load(file)
    index = json.loads(blob(top["manifests"][0]))
    of_arch = [m for m in index["manifests"] if m["platform"]["architecture"] == arch]
    manifest = json.loads(blob(of_arch[0]))
    for part in manifest["layers"]:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob(part)))) as archive:
            archive.extractall(root, filter="tar")
    print(json.dumps(json.loads(blob(manifest["config"]))["config"]))


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "--unpack":
        unpack(*sys.argv[2:])
    elif len(sys.argv) > 3 and all("=" in pair for pair in sys.argv[3:]):
        write(sys.argv[1], sys.argv[2], [pair.split("=", 1) for pair in sys.argv[3:]])
    else:
        sys.exit(__doc__)
