#!/usr/bin/env python3
"""Our channel beside ucx_perftest on the same transport, in interleaved rounds.

  tests/bench/transport_bench.py build/release/bench/transport_bench [rounds]

Prints per transport and way of waiting the median of the ratios, with the smallest and the largest:
latency of 8 bytes (ours / theirs) and bandwidth of 10 MB messages (ours / theirs).
"""
import os
import re
import socket
import statistics
import subprocess
import sys
import time

BENCH = sys.argv[1]
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 7
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--allow-run-as-root", "-n", "2"]
WAYS = [  # name, UCX_TLS of ucx_perftest, our arguments
    ("shared memory", "sm,self", []),
    ("tcp on lo", "tcp", ["--device", "lo"]),
]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def perftest(tls, wait, test, size, count):
    port = str(free_port())
    environment = dict(os.environ, UCX_TLS=tls, UCX_NET_DEVICES="lo" if tls == "tcp" else "all")
    base = ["ucx_perftest", "-p", port] + (["-E", "sleep"] if wait == "event" else [])
    server = subprocess.Popen(base, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.3)
        out = subprocess.run(base + ["127.0.0.1", "-t", test, "-s", str(size), "-n", str(count), "-w", "20", "-f"],
                             env=environment, capture_output=True, text=True, timeout=60).stdout
    finally:
        server.kill()
        server.wait()
    lines = [line for line in out.splitlines() if re.match(r"\s+\d+\s", line)]
    numbers = re.findall(r"[\d.]+", lines[-1]) if lines else []
    if len(numbers) < 6:
        raise RuntimeError("ucx_perftest gave no figures: " + out[-300:])
    # iterations, percentile, average, overall latency (us); average, overall bandwidth (MiB/s); ...
    return float(numbers[3]), float(numbers[5]) * 1.048576


def ours(arguments, wait):
    out = subprocess.run(MPIRUN + [BENCH, "--wait", wait] + arguments, capture_output=True, text=True,
                         timeout=120, check=True).stdout
    latency, bandwidth = re.search(r"latency_us ([\d.]+) bandwidth_mb_s ([\d.]+)", out).groups()
    return float(latency), float(bandwidth)


def summary(values):
    if not values:
        return "no figures"
    return f"{statistics.median(values):5.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    print(f"{ROUNDS} rounds; ratios ours / ucx_perftest: median (min to max)")
    for name, tls, arguments in WAYS:
        for wait in ("spin", "event"):
            latency, bandwidth, last = [], [], None
            for _ in range(ROUNDS):
                their_latency, _ = perftest(tls, wait, "tag_lat", 8, 3000)
                _, their_bandwidth = perftest(tls, wait, "tag_bw", 10_000_000, 80)
                our_latency, our_bandwidth = ours(arguments, wait)
                if their_latency > 0:
                    latency.append(our_latency / their_latency)
                if their_bandwidth > 0:
                    bandwidth.append(our_bandwidth / their_bandwidth)
                last = (our_latency, their_latency, our_bandwidth, their_bandwidth)
            print(f"{name:14} {wait:6} latency x {summary(latency)}  bandwidth x {summary(bandwidth)}"
                  f"  (last round: {last[0]:.1f} / {last[1]:.1f} us, {last[2]:.0f} / {last[3]:.0f} MB/s)", flush=True)


main()
