#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building, running and (with --test) testing meadow needs, from the distribution's own
# packages. Debian 12 and 13, Ubuntu 24.04.
#
#   deploy/deps.sh            says what is missing, then installs it
#   deploy/deps.sh --test     also what test/check.sh and make lint use
#   deploy/deps.sh --check    only looks: lists what is missing, exit status 1 if anything is
#
# Nothing is asked, nothing is removed, and no service is started by it.
set -euo pipefail

build=(gcc make pkg-config libc6-dev libuv1-dev libhiredis-dev libmicrohttpd-dev libjansson-dev
    libssl-dev libsystemd-dev libcurl4-openssl-dev libyaml-dev uthash-dev)
run=(redis-server util-linux python3 openssl ca-certificates curl procps)
tests=(check git python3-pytest python3-pytest-xdist python3-yaml docker.io busybox-static valgrind clang clang-tidy
    clang-format cppcheck shellcheck codespell iproute2 iptables jq systemd systemd-container
    dbus python3-jwcrypto libfaketime spin)
# Node from elsewhere brings its own npm, which Debian's packages refuse to stand beside.
command -v node >/dev/null || tests+=(nodejs)
command -v npm >/dev/null || tests+=(npm)

usage() {
    sed -n '/^# Installs/,/^$/s/^# \{0,1\}//p' "$0" | sed '/^set /,$d'
}

only_look=no
wanted=("${build[@]}" "${run[@]}")
for argument in "$@"; do
    case $argument in
    --check) only_look=yes ;;
    --test) wanted+=("${tests[@]}") ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        echo "deps.sh: unknown option '$argument' (known: --check --test --help)" >&2
        exit 2
        ;;
    esac
done

if ! command -v apt-get >/dev/null; then
    echo "deps.sh: this system has no apt-get; it knows Debian 12/13 and Ubuntu 24.04." >&2
    echo "Install by hand the like of: ${wanted[*]}" >&2
    exit 1
fi

# libFuzzer and the sanitizers of clang live in a package named after clang's major version.
clang_runtime() {
    local major
    major=$(apt-cache depends clang 2>/dev/null | sed -nE 's/.*Depends: clang-([0-9]+)$/\1/p' | head -n 1)
    [ -n "$major" ] && echo "libclang-rt-$major-dev"
}

missing=()
look() {
    local package installed
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
        sed -n 's/^installed //p') || true
    missing=()
    for package in "${wanted[@]}"; do
        grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
    done
}

# The clang runtime's name is only asked for when no libclang-rt is there yet: the second run stays quick.
add_clang_runtime() {
    case " ${wanted[*]} " in *" clang "*) ;; *) return 0 ;; esac
    local there
    there=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'libclang-rt-*-dev' 2>/dev/null) || true
    grep -q '^installed ' <<<"$there" && return 0
    local runtime
    runtime=$(clang_runtime) || return 0
    wanted+=("$runtime")
}

if [ "$only_look" = yes ]; then
    look
    [ ${#missing[@]} -eq 0 ] && exit 0
    echo "missing packages: ${missing[*]}"
    echo "install them with: deploy/deps.sh$(case " ${wanted[*]} " in *" check "*) echo ' --test' ;; esac)"
    exit 1
fi

look
add_clang_runtime
look
if [ ${#missing[@]} -eq 0 ]; then
    echo "deps: all ${#wanted[@]} packages are there"
    exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "deps: missing ${missing[*]}" >&2
        echo "deps: installing needs root and there is no sudo: run deploy/deps.sh as root." >&2
        exit 1
    fi
    as_root=(sudo)
fi

# Packages with a service (redis-server, docker.io) start it when configured. This policy file says no for the
# time of the installation; one that was there before is left alone.
policy=/usr/sbin/policy-rc.d
made_policy=no
forbid_services() {
    [ -e "$policy" ] && return 0
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    made_policy=yes
    "${as_root[@]}" chmod 755 "$policy"
}
allow_services() {
    [ "$made_policy" = no ] || "${as_root[@]}" rm -f "$policy"
    made_policy=no
}
trap allow_services EXIT

apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

explain_failure() {
    cat >&2 <<END
deps: apt could not install: ${missing[*]}
  - is a package source reachable?   apt-get update
  - is another installation broken?  dpkg --configure -a; apt-get -f install
  - Ubuntu: libraries are in 'universe' (add-apt-repository universe)
END
    exit 1
}

echo "deps: will install from this system's package sources: ${missing[*]}"
forbid_services
apt update || echo "deps: apt-get update failed; trying with the lists that are here" >&2
add_clang_runtime # its name may only be known now
look
if ! apt install -y --no-install-recommends "${missing[@]}"; then
    echo "deps: trying once more with fresh package lists" >&2
    apt update || explain_failure
    apt install -y --no-install-recommends --fix-broken "${missing[@]}" || explain_failure
fi
allow_services
look
[ ${#missing[@]} -eq 0 ] || explain_failure
echo "deps: done"
