#!/usr/bin/env bash
# Everything a fresh machine needs, in one command each:
#   ./bootstrap.sh setup         install what is missing, configure, build
#   ./bootstrap.sh demo          the same, then train a small GPT-2 on four MPI ranks
#   ./bootstrap.sh test          the same, then the tests (CI runs this)
#   ./bootstrap.sh test --all    also the long tests, the thread sanitizer and full counts
# Safe to run again; on systems without apt it prints what to install and stops.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"

jobs=$(nproc)
preset=release
build=build/$preset
# Containers and CI run as root, and with more ranks than cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun_flags=(--oversubscribe --bind-to none)

packages=(g++ cmake ninja-build pkg-config git python3
  libopenmpi-dev openmpi-bin libucx-dev libhdf5-openmpi-dev hdf5-tools
  libtrilinos-kokkos-dev libdnnl-dev libopenblas-dev zlib1g-dev
  libtomlplusplus-dev libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev)
test_packages=(libgtest-dev libgmock-dev clang-format clang-tidy iproute2)

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }

install_missing() {
  local missing=() p
  if ! command -v dpkg-query >/dev/null; then
    if command -v cmake >/dev/null && command -v mpirun >/dev/null; then return; fi
    say "This system has no apt. Adaptra needs: a C++20 compiler, CMake >= 3.24, Ninja, MPI, UCX, parallel HDF5,"
    say "Kokkos, oneDNN (or a BLAS), toml++, CLI11, spdlog, fmt, nlohmann-json, GoogleTest."
    say "  spack: spack install cmake ninja openmpi ucx hdf5+mpi kokkos onednn tomlplusplus cli11 spdlog fmt nlohmann-json googletest"
    say "  modules: load your site's compiler, MPI, UCX, HDF5 (parallel) and Kokkos, then run this script again"
    exit 3
  fi
  for p in "$@"; do
    [ "$(dpkg-query -W -f='${Status}' "$p" 2>/dev/null)" = "install ok installed" ] || missing+=("$p")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then sudo=(sudo); else
      say "Missing packages. Run this, then ./bootstrap.sh again:"
      say "  sudo apt-get install -y ${missing[*]}"
      exit 3
    fi
  fi
  step "installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

configure_and_build() { # preset [target...]
  local name=$1; shift
  step "building build/$name"
  cmake --preset "$name" >"build-$name.log" 2>&1 || { cat "build-$name.log"; exit 3; }
  rm -f "build-$name.log"
  cmake --build --preset "$name" -j "$jobs" ${1:+--target "$@"} -- --quiet
}

setup() {
  install_missing "${packages[@]}"
  configure_and_build $preset all
}

demo() {
  setup
  step "training a small GPT-2 on this project's own text: 4 MPI ranks, each a pipeline stage"
  mpirun "${mpirun_flags[@]}" -n 4 $build/bin/adaptra-train inputs/quickstart.toml --overwrite
}

run_tests() {
  local all=${1:-}
  install_missing "${packages[@]}" "${test_packages[@]}"
  local exclude=(-LE "slow|gpu") scale=${ADAPTRA_TEST_SCALE:-1}
  if [ "$all" = --all ]; then exclude=(-LE gpu); scale=${ADAPTRA_TEST_SCALE:-10}; fi
  export ADAPTRA_TEST_SCALE=$scale

  step "format"
  git ls-files '*.cpp' '*.hpp' | xargs -r clang-format --dry-run -Werror
  configure_and_build $preset all
  if [ "$all" = --all ]; then
    step "lint"
    git ls-files 'src/*.cpp' 'apps/*.cpp' | xargs -r -P "$jobs" -n 4 clang-tidy -p $build --quiet 2>/dev/null
  fi

  local failed=0 report=(--output-on-failure --output-junit junit.xml --test-output-size-passed 65536 -j "$jobs")
  step "tests (release)"
  ctest --test-dir $build "${exclude[@]}" "${report[@]}" || failed=1
  # In the short tier the sanitizers see what reads files from elsewhere and the planner; in the long one, all.
  local asan_targets=(core_test deck_test plan_test plan_property_test) asan_filter
  asan_filter=(-R "^($(IFS='|'; echo "${asan_targets[*]}"))$")
  if [ "$all" = --all ]; then asan_targets=(all) asan_filter=(); fi
  configure_and_build asan "${asan_targets[@]}"
  step "unit tests under address and undefined-behaviour sanitizers"
  ctest --test-dir build/asan -L unit "${exclude[@]}" "${asan_filter[@]}" "${report[@]}" || failed=1
  if [ "$all" = --all ]; then
    configure_and_build tsan all
    step "unit tests under the thread sanitizer"
    ctest --test-dir build/tsan -L unit -LE "slow|gpu" "${report[@]}" || failed=1
  fi
  step "summary"
  python3 tests/tools/summarize_tests.py $build build/asan $([ "$all" = --all ] && echo build/tsan) || failed=1
  return $failed
}

case ${1:-} in
  setup) setup; say; say "Programs: $build/bin" ;;
  demo) demo ;;
  test) run_tests "${2:-}" ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
