#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public trace that is there, through packing and replay (docs/replay.md); TRACES: their
# folder; SIM: that of the programs. Prints as it goes, and what takes long tells so on stderr.
set -eu
[ -d "$TRACES" ] || { echo "replay: no folder $TRACES: make replay TRACES=DIR" >&2; exit 1; }
openb=$TRACES/alibaba-gpu-v2023
nodes=$openb/openb_node_list_all_node.csv

title() {
  printf '\n== %s\n' "$*"
}

for pods in "$openb"/openb_pod_list_*.csv; do
  title "packing ${pods##*/}"
  "$SIM/packing" "$nodes" "$pods"
done
# Trace, nodes, how many times as fast, how many of the first are left out.
while read -r trace of faster skip; do
  title "replay $trace on ${of#"$openb"/}, $faster times as fast"
  "$SIM/replay" "$TRACES/$trace" "$of" "$faster" "$skip"
done << END
alibaba-gpu-v2023/openb_pod_list_default.csv $nodes%20 50 58
alibaba-gpu-v2023/openb_pod_list_gpuspec33.csv $nodes%20 50 58
philly/philly.csv 96 1 0
gavel/msr-seed0-2869ce.trace 8 1 0
gavel/physical-max_min_fairness.trace 12x4 1 0
tiresias/60_job.csv 3 1 0
END
