#!/bin/bash
# Several "hosts" on one machine, to test what happens on real network devices. Root only; leaves
# nothing behind after "down". Each host hN is a network and a UTS namespace with three devices,
#   mgmt 10.77.0.(10+N)/24   rail0 10.77.1.(10+N)/24   rail1 10.77.2.(10+N)/24
# joined by three bridges in a namespace of their own.
#   netlab.sh up | down
#   netlab.sh run hN COMMAND...            COMMAND on hN, with its own /sys, /etc/hosts, /dev/shm, IPC
#   netlab.sh mpirun HOSTS ARGS...         one rank per host, e.g. HOSTS = h0,h1; MPI on mgmt only
#   netlab.sh rate hN DEVICE 200mbit|off   what hN sends on the device (token bucket)
#   netlab.sh link hN DEVICE up|down       the host's own device
#   netlab.sh port hN DEVICE up|down       the switch's side: hN keeps its address and loses carrier
# Environment: NHOSTS (2), LABPREFIX (adaptra), LABDIR (a folder for the hosts' files).
set -eu
hosts=${NHOSTS:-2}
prefix=${LABPREFIX:-adaptra}
dir=${LABDIR:-${TMPDIR:-/tmp}/$prefix-netlab}
devices=(mgmt rail0 rail1)
self=$(readlink -f "$0")

up() {
  mkdir -p "$dir"
  echo "127.0.0.1 localhost" >"$dir/hosts"
  for ((i = 0; i < hosts; i++)); do echo "10.77.0.$((10 + i)) h$i" >>"$dir/hosts"; done
  ip netns add "$prefix-sw"
  ip -n "$prefix-sw" link set lo up
  for k in 0 1 2; do
    ip -n "$prefix-sw" link add br$k type bridge forward_delay 0 mcast_snooping 0
    ip -n "$prefix-sw" link set br$k up
  done
  for ((i = 0; i < hosts; i++)); do
    local h=$prefix-h$i
    ip netns add "$h"
    ip -n "$h" link set lo up
    for k in 0 1 2; do
      ip -n "$prefix-sw" link add p$i-$k type veth peer name ${devices[k]} netns "$h"
      ip -n "$prefix-sw" link set p$i-$k master br$k up
      ip -n "$h" addr add 10.77.$k.$((10 + i))/24 dev ${devices[k]}
      ip -n "$h" link set ${devices[k]} up
    done
    touch "$dir/uts.h$i"
    unshare --uts="$dir/uts.h$i" hostname h$i # a UTS namespace that stays
  done
}

down() {
  for ((i = 0; i < hosts; i++)); do
    umount "$dir/uts.h$i" 2>/dev/null || :
    ip netns del "$prefix-h$i" 2>/dev/null || :
  done
  ip netns del "$prefix-sw" 2>/dev/null || :
  rm -rf "$dir"
}

run() { # /sys anew: UCX lists devices from /sys/class/net; own /dev/shm: no shared memory by accident
  local h=$1
  shift
  exec nsenter --net="/run/netns/$prefix-$h" --uts="$dir/uts.$h" unshare --mount --ipc --propagation private sh -c '
    mount -t sysfs sysfs /sys && mount --bind "$0" /etc/hosts && mount -t tmpfs -o mode=1777 shm /dev/shm && exec "$@"' \
    "$dir/hosts" "$@"
}

number() { case $1 in mgmt) echo 0 ;; rail0) echo 1 ;; rail1) echo 2 ;; esac; }

flush_neighbours() { # else connections fail with "no route" for seconds after a device is back
  for ((i = 0; i < hosts; i++)); do ip -n "$prefix-h$i" neigh flush dev "$1"; done
}

case ${1:-} in
  up) up ;;
  down) down ;;
  run) shift; run "$@" ;;
  agent) # mpirun's remote shell: agent HOST COMMAND...
    shift
    h=$1
    shift
    run "$h" sh -c "$*" ;;
  mpirun)
    shift
    list=$1
    shift
    run "${list%%,*}" env NHOSTS="$hosts" LABPREFIX="$prefix" LABDIR="$dir" \
      mpirun --allow-run-as-root --host "$list" --map-by node --bind-to none \
      --mca plm rsh --mca plm_rsh_agent "$self agent" --mca oob_tcp_if_include mgmt --mca pml ob1 \
      --mca btl tcp,self --mca btl_tcp_if_include mgmt --mca mpi_yield_when_idle 1 "$@" ;;
  rate)
    if [ "$4" = off ]; then
      tc -n "$prefix-$2" qdisc del dev "$3" root 2>/dev/null || :
    else
      tc -n "$prefix-$2" qdisc replace dev "$3" root tbf rate "$4" burst 128kb latency 50ms
    fi ;;
  link)
    ip -n "$prefix-$2" link set "$3" "$4"
    [ "$4" = down ] || flush_neighbours "$3" ;;
  port)
    ip -n "$prefix-sw" link set "p${2#h}-$(number "$3")" "$4"
    [ "$4" = down ] || flush_neighbours "$3" ;;
  *)
    sed -n 2,13p "$self"
    exit 2 ;;
esac
