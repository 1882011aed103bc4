#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes build/meadow_VERSION_ARCH.deb from what "make install" would install. Usage: deploy/deb.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}

version=$(sed -nE 's/^#define MEADOW_VERSION +"(.*)"/\1/p' proto/version.h)
arch=$(dpkg --print-architecture)
tree=$(mktemp -d /tmp/meadow-deb.XXXXXX)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
make -s BUILD="$build" DESTDIR="$tree" PREFIX=/usr install

# The packages that hold the libraries the programs name themselves.
owner_of() {
    local path
    path=$(ldconfig -p | awk -v name="$1" '$1 == name { print $NF; exit }')
    { dpkg -S "$(readlink -f "$path")" "$path" 2>/dev/null || true; } | head -n 1 | cut -d : -f 1
}
depends=$(readelf -d "$tree"/usr/bin/* | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' | sort -u |
    while read -r library; do owner_of "$library"; done | sort -u | paste -s -d , | sed 's/,/, /g')

mkdir "$tree/DEBIAN"
cat >"$tree/DEBIAN/control" <<END
Package: meadow
Version: $version
Architecture: $arch
Maintainer: meadow developers <meadow@localhost>
Section: admin
Priority: optional
Depends: $depends, redis-server
Recommends: docker.io
Description: cluster manager for training on machines you already have
 A master that keeps the cluster's state and places jobs, an agent for each
 machine, and the meadow command.
END
(cd "$tree" && find etc -type f -printf '/%p\n') >"$tree/DEBIAN/conffiles"
cp deploy/after-install.sh "$tree/DEBIAN/postinst"
cat >"$tree/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now meadow-master.service meadow-agent.service
fi
END
chmod 755 "$tree/DEBIAN/postinst" "$tree/DEBIAN/prerm"
dpkg-deb --root-owner-group --build "$tree" "$build/meadow_${version}_$arch.deb"
