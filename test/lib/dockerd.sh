#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A private container engine for tests: its own data, socket, containerd; no bridge, no iptables rules, so that several
# can live side by side and none touches the machine's own engine. Needs root. For details see dockerd.py.
#
#   dockerd.sh start DIR [DOCKERD_OPTION...]   returns when the API answers at DIR/docker.sock (pid in DIR/dockerd.pid)
#   dockerd.sh stop DIR                        ends it, its containers and mounts; DIR/data stays (delete it if unwanted)
exec /usr/bin/python3 "$(dirname "$0")/dockerd.py" "$@"
