#!/bin/bash
# modulefiles_test.sh BUILD_FOLDER: installs the modulefiles under a prefix of their own and loads them
# with what is here: Tcl modules and Lmod. Exit code 77: neither is installed.
set -u
prefix=$(mktemp -d)/"a prefix"
trap 'rm -rf "$(dirname "$prefix")"' EXIT
cmake --install "$1" --component environment --prefix "$prefix" >/dev/null || exit 1
folder=$prefix/share/adaptra/modulefiles
tried=0
check() { # name, init file
  [[ -r $2 ]] || { echo "$1: not installed"; return; }
  tried=1
  local shown
  shown=$(bash -c "source '$2'; module use '$folder'; module load adaptra && echo \"\$PATH|\$ADAPTRA_SLURM\"" 2>&1 | tail -n 1)
  if [[ $shown != "$prefix/bin:"*"|$prefix/share/adaptra/slurm" || ! -r ${shown#*|}/common.sh ]]; then
    echo "$1: module load gave '$shown'"
    exit 1
  fi
  echo "$1: ok"
}
check "Tcl modules" /usr/share/modules/init/bash
check "Lmod" /usr/share/lmod/lmod/init/bash
((tried)) || exit 77
