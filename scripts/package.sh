#!/usr/bin/env bash
# `make package`: to target/package/ a .deb and an .rpm, strata-VERSION-ARCH.tar.gz with one static program, and
# strata-VERSION-oci.tar, an image as an OCI layout with that program as its only layer. Installs nothing on the machine.
#   package.sh [archive|packages]      only the archive and the image, or only the .deb and the .rpm
# Two clones of one commit give the same bytes with the same compilers and libelf: no path of the builder and no time of the build
# is in them; files are as old as the commit. PACKAGE_JOBS: as cargo's -j.
source "$(dirname "$0")/lib.sh"
scripts/setup.sh

what=${1:-all}
case $what in all | archive | packages) ;; *) say "archive, packages, or nothing for both"; exit 2 ;; esac
# The metadata of the packages name target/package.
export CARGO_TARGET_DIR=$PWD/target
target_dir=$CARGO_TARGET_DIR out=$CARGO_TARGET_DIR/package tools=$CARGO_TARGET_DIR/tools
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
triple=$(rustc -vV | sed -n 's/^host: //p') arch=$(uname -m)
# Where this is no clone of git, such as in a source archive, both can be given.
STRATA_COMMIT=${STRATA_COMMIT:-$(git rev-parse --short=12 HEAD)$([ -z "$(git status --porcelain)" ] || echo " with changes")}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export STRATA_COMMIT SOURCE_DATE_EPOCH

jobs=${PACKAGE_JOBS:+-j$PACKAGE_JOBS}
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export CFLAGS="-ffile-prefix-map=$PWD=. -ffile-prefix-map=$cargo_home=cargo"
no_paths="--remap-path-prefix=$PWD=. --remap-path-prefix=$cargo_home=cargo"

# The programs that pack, in the versions that were tried; compiled once, quickly.
tool() {
    [ "$("$tools/bin/$1" --version 2>/dev/null | grep -o '[0-9][0-9.]*' | head -n 1)" = "$2" ] && return
    say "compiling $1 $2 to ${tools#"$PWD"/}"
    # shellcheck disable=SC2086
    CFLAGS='' cargo install --quiet --locked --debug $jobs --root "$tools" "$1@$2" || fail "$1 $2 can't be installed by cargo"
}

# A tar file in which nothing is of the builder: tar_of DIRECTORY NAME...
tar_of() {
    tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "${@:2}"
}

# One program for all: it needs no library of the machine.
compile() {
    local library
    for library in libelf.a libz.a; do
        [ -e "$(gcc -print-file-name=$library)" ] || fail "no $library: install libelf-dev and zlib1g-dev"
    done
    library=$(dirname "$(realpath "$(gcc -print-file-name=libelf.a)")")
    say "compiling the program"
    # shellcheck disable=SC2086
    LIBBPF_SYS_LIBRARY_PATH=$library RUSTFLAGS="$no_paths -C target-feature=+crt-static" \
        cargo build --quiet --locked $jobs --profile dist -p strata --features strata-linux/static --target "$triple"
}

# What is made of the program.
texts() {
    local shell
    rm -rf "$out"
    mkdir -p "$out"
    "$program" man "$out/man" 2>/dev/null
    gzip -9n "$out"/man/*
    for shell in bash zsh fish; do "$program" completions $shell >"$out/strata.$shell"; done
    sed 's,/usr/local/bin/,/usr/bin/,; 1s,.*,# The guard of strata; its rules are in /etc/strata/guard.toml.,' \
        packaging/systemd/strata-guard.service >"$out/strata-guard.service"
    {
        printf 'strata (%s-1) unstable; urgency=medium\n\n  * Commit %s; CHANGELOG.md tells what changed.\n\n' "$version" "$STRATA_COMMIT"
        printf ' -- The Strata authors <strata@strata.invalid>  %s\n' "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
    } >"$out/changelog"
    {
        echo "Libraries inside the program, and their licences. libbpf (LGPL-2.1 OR BSD-2-Clause) is inside libbpf-sys, SQLite (public"
        echo "domain), liblzma (0BSD) and zstd (BSD-3-Clause) inside the crates named after them. Beside them there are the GNU C library"
        echo "(LGPL-2.1-or-later), libelf (LGPL-3.0-or-later OR GPL-2.0-or-later) and zlib (Zlib), as the builder's system has them."
        echo
        cargo tree --locked -p strata -e normal --prefix none --format '{p}  {l}' | sed 's, (\*)$,,; /^strata/d' | LC_ALL=C sort -u
    } >"$out/libraries.txt"
}

archive() {
    local name=strata-$version-$arch root=$out/tree image=$out/oci layer config
    mkdir -p "$root/$name/examples" "$image/blobs/sha256" "$root/rootfs"/{usr/bin,etc/strata,proc,sys,dev,tmp,run/strata,var/lib/strata}
    install -m755 "$program" "$root/$name/strata"
    cp -r LICENSE-MIT LICENSE-APACHE docs/grafana-dashboard.json packaging/prometheus/strata.rules.yml "$out/man" \
        "$out"/{strata.bash,strata.zsh,strata.fish,strata-guard.service,libraries.txt} packaging/systemd/guard-watch.toml "$root/$name"
    cp packaging/systemd/guard.toml "$root/$name/examples/server.toml"
    cp packaging/systemd/guard-desktop.toml "$root/$name/examples/desktop.toml"
    cp packaging/systemd/guard-agents.toml "$root/$name/examples/agents.toml"
    cp -r packaging/helm packaging/kubernetes "$root/$name"
    chmod -R u=rwX,go=rX "$root"
    tar_of "$root" "$name" | gzip -9n >"$out/$name.tar.gz"

    # An image is a few JSON files beside its layer, each named by its checksum.
    cp "$program" "$root/rootfs/usr/bin/strata"
    cp packaging/systemd/guard-watch.toml "$root/rootfs/etc/strata/guard.toml"
    printf 'root:x:0:0:root:/:/usr/bin/strata\n' >"$root/rootfs/etc/passwd"
    chmod -R u=rwX,go=rX "$root/rootfs"
    tar_of "$root/rootfs" . >"$out/layer.tar"
    layer=$(sha256sum <"$out/layer.tar" | cut -d' ' -f1)
    gzip -9nf "$out/layer.tar"
    blob() { local sum; sum=$(sha256sum <"$1" | cut -d' ' -f1); mv "$1" "$image/blobs/sha256/$sum"; echo "$sum"; }
    described() { printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s' "$1" "$2" "$(stat -c %s "$image/blobs/sha256/$2")"; }
    printf '{"created":"%s","architecture":"%s","os":"linux","config":{"Entrypoint":["/usr/bin/strata"],"Cmd":["guard","--config","/etc/strata/guard.toml"],"Labels":{"org.opencontainers.image.revision":"%s","org.opencontainers.image.version":"%s","org.opencontainers.image.licenses":"MIT OR Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)" "$([ "$arch" = aarch64 ] && echo arm64 || echo amd64)" "$STRATA_COMMIT" "$version" "$layer" >"$out/json"
    config=$(blob "$out/json")
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s},"layers":[%s}]}' \
        "$(described config.v1+json "$config")" "$(described layer.v1.tar+gzip "$(blob "$out/layer.tar.gz")")" >"$out/json"
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s,"annotations":{"org.opencontainers.image.ref.name":"%s"}}]}' \
        "$(described manifest.v1+json "$(blob "$out/json")")" "$version" >"$image/index.json"
    printf '{"imageLayoutVersion":"1.0.0"}' >"$image/oci-layout"
    tar_of "$image" . >"$out/strata-$version-oci.tar"
    rm -rf "$root" "$image"
}

packages() {
    tool cargo-deb 3.8.0
    tool cargo-generate-rpm 0.21.1
    PATH=$tools/bin:$PATH cargo deb --quiet --no-build --no-strip --profile dist --target "$triple" -p strata -o "$out/" >/dev/null
    PATH=$tools/bin:$PATH cargo generate-rpm --profile dist --target "$triple" -p crates/cli -o "$out/"
}

program=$target_dir/$triple/dist/strata
compile
# What the C library brings has names, whatever the profile says.
strip "$program"
texts
[ "$what" = packages ] || archive
[ "$what" = archive ] || packages
(cd "$out" && stat -c '%11s  %n' -- $(compgen -G '*.tar*'; compgen -G '*.deb'; compgen -G '*.rpm'))
