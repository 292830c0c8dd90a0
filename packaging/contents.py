"""What is in the static programs, from the files of cargo: a CycloneDX list of components, and the licences of all of them.

    contents.py sbom TARGET        JSON on standard output
    contents.py licences TARGET    text on standard output

Both hold the same crates: those that `cargo tree` says are linked. SOURCE_DATE_EPOCH is the time that is written."""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

PACKAGES = ["fedreg-party", "fedreg-coordinator", "fedreg-examples"]
LICENCE = re.compile(r"(?i)^(licen[cs]e|copying|copyright|notice|unlicense)")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def crates(target):
    """The linked crates, as cargo describes them, by name and version."""
    flags = ["--locked", "--all-features"]
    chosen = [flag for package in PACKAGES for flag in ("--package", package)]
    edges = ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]
    lines = output("cargo", "tree", *flags, "--target", target, *chosen, *edges).splitlines()
    linked = {tuple(line.split(" ")[:2]) for line in lines if line}
    described = json.loads(output("cargo", "metadata", *flags, "--format-version", "1", "--filter-platform", target))
    found = {(package["name"], "v" + package["version"]): package for package in described["packages"]}
    missing = linked - found.keys()
    if missing or not linked:
        sys.exit(f"cargo tree and cargo metadata differ: {sorted(missing)}")
    graph = {node["id"]: node["dependencies"] for node in described["resolve"]["nodes"]}
    return {key: found[key] for key in sorted(linked)}, graph


def foreign(packages, target):
    """What is linked and no crate: name, version, licence."""
    folder = {name: pathlib.Path(package["manifest_path"]).parent for (name, _), package in packages.items()}
    sqlite = folder["libsqlite3-sys"] / "sqlite3" / "sqlite3.h"
    (version,) = re.findall(r'#define SQLITE_VERSION\s+"(.+)"', sqlite.read_text(encoding="utf-8"))
    yield "sqlite", version, "blessing"
    header = (folder["zstd-sys"] / "zstd" / "lib" / "zstd.h").read_text(encoding="utf-8")
    parts = [re.search(rf"#define ZSTD_VERSION_{part}\s+(\d+)", header)[1] for part in ("MAJOR", "MINOR", "RELEASE")]
    yield "zstd", ".".join(parts), "BSD-3-Clause"
    yield "rust-std", output("rustc", "--version").split(" ")[1], "MIT OR Apache-2.0"
    if target.endswith("-gnu"):
        yield "glibc", output("getconf", "GNU_LIBC_VERSION").split()[1], "LGPL-2.1-or-later"


def expression(package):
    """A licence expression of SPDX; older crates have a stroke in the place of OR."""
    return re.sub(r"\s*/\s*", " OR ", package["license"] or "")


def component(package, sums):
    name, version = package["name"], package["version"]
    described = {
        "type": "library",
        "bom-ref": f"pkg:cargo/{name}@{version}",
        "name": name,
        "version": version,
        "scope": "required",
        "licenses": [{"expression": expression(package)}],
    }
    if package["source"]:
        described["purl"] = f"pkg:cargo/{name}@{version}"
    if (name, version) in sums:
        described["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
    if package["repository"]:
        described["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return described


def sbom(target):
    packages, graph = crates(target)
    lock = tomllib.loads(pathlib.Path("Cargo.lock").read_text(encoding="utf-8"))
    sums = {(entry["name"], entry["version"]): entry["checksum"] for entry in lock["package"] if "checksum" in entry}
    components = [component(package, sums) for package in packages.values()]
    for name, version, licence in foreign(packages, target):
        reference = f"pkg:generic/{name}@{version}"
        known = {"licenses": [{"expression": licence}], "purl": reference}
        components.append({"type": "library", "bom-ref": reference, "name": name, "version": version, "scope": "required", **known})
    references = {package["id"]: f"pkg:cargo/{package['name']}@{package['version']}" for package in packages.values()}
    links = [
        {"ref": reference, "dependsOn": sorted(references[other] for other in set(graph[identity]) if other in references)}
        for identity, reference in sorted(references.items(), key=lambda pair: pair[1])
    ]
    (version,) = {package["version"] for (name, _), package in packages.items() if name in PACKAGES}
    own = {"type": "application", "bom-ref": "fedreg", "name": "fedreg", "version": version}
    links.append({"ref": "fedreg", "dependsOn": [reference for reference in sorted(references.values()) if reference.split("@")[0][10:] in PACKAGES]})
    when = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    properties = [{"name": "cargo:target", "value": target}]
    metadata = {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": own, "properties": properties}
    body = {"metadata": metadata, "components": components, "dependencies": links}
    number = uuid.uuid5(uuid.NAMESPACE_OID, hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest())
    head = {"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{number}", "version": 1}
    json.dump(head | body, sys.stdout, indent=1, ensure_ascii=False)
    print()


def texts(folder):
    """The licence files of a crate."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and LICENCE.match(path.name))
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in files]


def licences(target):
    packages, _ = crates(target)
    others = {key: package for key, package in packages.items() if package["source"]}
    holders = {}
    print("The programs of fedreg are linked with the libraries below, under the licence that stands behind each.\n")
    for (name, version), package in others.items():
        print(f"{name} {version[1:]}: {expression(package)}")
        for text in texts(pathlib.Path(package["manifest_path"]).parent):
            holders.setdefault(text, []).append(name)
    for name, version, licence in foreign(packages, target):
        print(f"{name} {version}: {licence}")
    if target.endswith("-gnu"):
        print("\nglibc is linked statically. The sources of fedreg and its script .ci/release link the programs anew with any other")
        print("version of it, as its licence, the GNU Lesser General Public License 2.1, wants it to be possible.")
    for text, names in holders.items():
        print(f"\n{'=' * 100}\nThe licence file of {', '.join(names)}:\n\n{text}")


{"sbom": sbom, "licences": licences}[sys.argv[1]](sys.argv[2])
