#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a system needs once its files are in place: the daemons' user, configuration that user can read, and systemd told of
# the units. "make install" runs it as root without DESTDIR; the package has it as its postinst.
set -e
[ "$(id -u)" -eq 0 ] || exit 0

if ! getent passwd meadow >/dev/null; then
    # With another PREFIX systemd-sysusers may not find the file: then by hand.
    systemd-sysusers meadow.conf 2>/dev/null ||
        useradd --system --user-group --home-dir /var/lib/meadow --shell /usr/sbin/nologin meadow
fi
for config in "${SYSCONFDIR:-/etc}"/meadow/*.yml; do
    [ ! -f "$config" ] || chgrp meadow "$config"
done
[ ! -d /run/systemd/system ] || systemctl daemon-reload
