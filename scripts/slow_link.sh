#!/usr/bin/env bash
# slow_link.sh RUN_MPI MODEL [TOKENS] [RUNS] - decoding on two ranks between which lies a slow wire: measured, and what
# docs/distributed.md predicts from the fast wire's time and the round trip of a ping. Root; Linux; needs ping.
cd "$(dirname "$0")/.." || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpi=$(realpath "$1") model=$(realpath "$2") tokens=${3:-2} runs=${4:-5}
tmp=$(mktemp -d) || exit 1
trap 'kill $relay 2>/dev/null; hosts_close; rm -rf "$tmp"' EXIT
. tests/hosts.sh
hosts_open tun && gcc -O2 -D_GNU_SOURCE -o "$tmp/relay" scripts/relay.c || exit 1

for ((run = 0; run < runs; run++)); do # alternating
    for wire in "0 0" "100 0" "1000 0" "0 1000" "100 1000"; do
        "$tmp/relay" $ns v$ns $wire &
        relay=$!
        ip netns exec ${ns}a ping -q -c 50 -i 0.002 10.77.0.2 >"$tmp/ping"
        hosts_mpirun --mca mpi_yield_when_idle 1 chrt -f 1 "$mpi" "$model" -m bench --json -P 0 -n $tokens -r 20 -j 1 >"$tmp/json" 2>"$tmp/err" ||
            cat "$tmp/err" >&2
        echo "$wire $(sed -n 's|^rtt .*= [0-9.]*/\([0-9.]*\)/.*|\1|p' "$tmp/ping") $(cat "$tmp/json")" >>"$tmp/all"
        kill $relay
        wait $relay 2>/dev/null
    done
done
"$mpi" "$model" -m info --json >"$tmp/info"
python3 - "$tmp/all" "$tmp/info" <<'P'
import collections, json, statistics, sys
info, all = json.load(open(sys.argv[2])), collections.defaultdict(list)
layers, dim = info["n_layers"], info["dim"]
for line in open(sys.argv[1]):
    delay, rate, ping, result = line.split(None, 3)
    all[float(delay), float(rate)].append((float(ping), 1000 / json.loads(result)["results"][0]["max"]))
median = {wire: [statistics.median(x) for x in zip(*seen)] for wire, seen in all.items()}
ping0, t0 = median[0, 0]
print("delay ms  Gbit/s  ping ms  ms a token  predicted   ratio")
for (delay, rate), (ping, t) in median.items():
    wire = 2 * layers * 4 * dim * 8 / (rate * 1000) if rate else 0  # ms
    predicted = t0 + (2 * layers + 2) * (ping - ping0) / 2 + wire
    print(f"{delay / 1000:8.1f}  {rate / 1000 if rate else '-':>6}  {ping:7.3f}  {t:10.2f}  {predicted:9.2f}  {t / predicted:6.2f}")
P
