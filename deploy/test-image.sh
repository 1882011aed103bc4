#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A small container image for tests and examples, made from this system's busybox-static and python3: no registry.
#
#   deploy/test-image.sh OUT.tar NAME:TAG                  makes the tar, prints how to import it
#   deploy/test-image.sh OUT.tar NAME:TAG --load SOCKET    makes it (unless OUT.tar is there) and loads it in that engine
#
# It holds sh and the busybox commands, python3 with most of its standard library, and /tmp.
set -euo pipefail

if [ $# -ne 2 ] && { [ $# -ne 4 ] || [ "${3:-}" != --load ]; }; then
    sed -n '/^#   deploy/s/^# *//p' "$0" >&2
    exit 2
fi
out=$1
name=${2%:*}
tag=${2##*:}
[ "$tag" != "$2" ] || tag=latest
socket=${4:-}

python=$(readlink -f /usr/bin/python3)
busybox=$(command -v busybox || true)
if [ -z "$busybox" ] || ! "$busybox" --list >/dev/null; then
    echo "test-image.sh: busybox is missing: run deploy/deps.sh --test" >&2
    exit 1
fi

# Copies a program or library of the host to the same path in the image, with what it is linked to.
add_linked() {
    local file library
    for file in "$@"; do
        install -D -m 755 "$(readlink -f "$file")" "$tree$file"
        for library in $(ldd "$file" 2>/dev/null | grep -oE '/[^ ]+'); do
            [ -e "$tree$library" ] || install -D -m 755 "$(readlink -f "$library")" "$tree$library"
        done
    done
}

make_base() {
    mkdir -p "$tree"/{bin,sbin,usr/bin,etc,proc,sys,dev,root,tmp,mnt,var,run}
    chmod 1777 "$tree/tmp"
    printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$tree/etc/passwd"
    printf 'root:x:0:\nnogroup:x:65534:\n' >"$tree/etc/group"
    printf 'hosts: files dns\npasswd: files\ngroup: files\n' >"$tree/etc/nsswitch.conf"
    install -m 755 "$busybox" "$tree/bin/busybox"
    local applet
    for applet in $("$busybox" --list); do
        [ "$applet" = busybox ] || ln -s busybox "$tree/bin/$applet"
    done
    ln -s ../../bin/env "$tree/usr/bin/env"
}

make_python() {
    local library version
    library=$(/usr/bin/python3 -Ic 'import sysconfig; print(sysconfig.get_path("stdlib"))')
    version=${library##*/}
    mkdir -p "$tree$library"
    tar -C "$library" --exclude='__pycache__' --exclude='test' --exclude='tests' --exclude='ensurepip' --exclude='idlelib' \
        --exclude='lib2to3' --exclude='tkinter' --exclude='turtledemo' --exclude='pydoc_data' --exclude='config-*' \
        --exclude='dist-packages' --exclude='site-packages' --exclude='LICENSE.txt' -cf - . | tar -C "$tree$library" -xf -
    # Compiled once here: a task's first import would otherwise cost it a second each time.
    "$python" -I -m compileall -q -s "$tree" --invalidation-mode unchecked-hash "$tree$library" >/dev/null
    install -D -m 755 "$python" "$tree/usr/bin/$version"
    ln -sf "$version" "$tree/usr/bin/python3"
    ln -sf python3 "$tree/usr/bin/python"
    add_linked "$python"
    local extension
    for extension in "$library"/lib-dynload/*.so; do
        add_linked "$extension"
    done
    # Loaded by name at run time, so no program names it.
    add_linked "$(ldconfig -p | awk '/libgcc_s\.so\.1 .*x86-64|libgcc_s\.so\.1 .*AArch64/ { print $NF; exit }')"
}

if [ ! -s "$out" ]; then
    tree=$(mktemp -d "${TMPDIR:-/tmp}/meadow-image.XXXXXX")
    trap 'rm -rf "$tree"' EXIT
    make_base
    make_python
    tar -C "$tree" --numeric-owner --owner=0 --group=0 --sort=name --mtime='2020-01-01 00:00Z' -cf "$out.tmp" .
    mv "$out.tmp" "$out"
fi

if [ -z "$socket" ]; then
    echo "docker import $out $name:$tag"
    exit 0
fi
answer=$(curl --silent --show-error --fail-with-body --unix-socket "$socket" -X POST -H 'Content-Type: application/x-tar' \
    -T "$out" "http://engine/images/create?fromSrc=-&repo=$name&tag=$tag") || {
    echo "test-image.sh: the engine refused the image: $answer" >&2
    exit 1
}
case $answer in
*'"error"'*)
    echo "test-image.sh: the engine refused the image: $answer" >&2
    exit 1
    ;;
esac
echo "$name:$tag"
