"""Writes an OCI image of one layer, as an archive: image.py FOLDER NAME:VERSION ARCHIVE. FOLDER holds the root of its files.

The same files give the same bytes: SOURCE_DATE_EPOCH is the time of everything."""

import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import sys
import tarfile

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
# As the package calls its user; no user of the machine has this number.
USER = 65532


def plain(entry):
    """Nobody's name and clock stand in the archive."""
    entry.uid = entry.gid = USER if entry.name == "study" else 0
    entry.uname = entry.gname = ""
    entry.mtime = EPOCH
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    if entry.name == "tmp":
        entry.mode = 0o1777
    return entry


def layer(folder):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, str(path.relative_to(folder)), recursive=False, filter=plain)
    return raw.getvalue()


class Layout:
    """The files of an image by their names in it."""

    def __init__(self):
        self.files = {"oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode()}

    def blob(self, kind, content):
        """Adds a part; what others call it by."""
        digest = hashlib.sha256(content).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    def write(self, path):
        with tarfile.open(path, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name in sorted(self.files):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime, entry.mode = len(self.files[name]), EPOCH, 0o644
                archive.addfile(entry, io.BytesIO(self.files[name]))


def main(folder, name, archive):
    title, version = name.split(":")
    created = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    raw = layer(pathlib.Path(folder))
    labels = {
        "org.opencontainers.image.title": title,
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
    }
    config = {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/bin", "HOME=/study"],
            "Cmd": ["coordinator", "--help"],
            "WorkingDir": "/study",
            "Labels": labels,
            "StopSignal": "SIGTERM",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(raw).hexdigest()}"]},
        "history": [{"created": created, "created_by": ".ci/release"}],
    }
    layout = Layout()
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": layout.blob("config.v1+json", json.dumps(config, indent=1).encode()),
        "layers": [layout.blob("layer.v1.tar+gzip", gzip.compress(raw, 9, mtime=0))],
        "annotations": labels,
    }
    entry = layout.blob("manifest.v1+json", json.dumps(manifest, indent=1).encode())
    entry["platform"] = {"architecture": "amd64", "os": "linux"}
    entry["annotations"] = {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"docker.io/library/{name}"}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}
    layout.files["index.json"] = json.dumps(index, indent=1).encode()
    layout.write(archive)


main(*sys.argv[1:])
