# Finds what Adaptra is built on; used by the build and, after installation, by AdaptraConfig.cmake.
# Every missing part says which package brings it.

function(adaptra_missing what debian)
  message(FATAL_ERROR "${what} was not found.\n  Debian 12: apt-get install ${debian}\n"
                      "  elsewhere: see docs/building.md; for only the planner, -DADAPTRA_PLANNER_ONLY=ON")
endfunction()

find_package(Threads REQUIRED)
foreach(entry "fmt;libfmt-dev" "spdlog;libspdlog-dev" "nlohmann_json;nlohmann-json3-dev" "CLI11;libcli11-dev"
              "tomlplusplus;libtomlplusplus-dev")
  list(GET entry 0 package)
  list(GET entry 1 debian)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    adaptra_missing(${package} ${debian})
  endif()
endforeach()

find_package(CBC QUIET)
if(NOT CBC_FOUND)
  message(STATUS "CBC not found: adaptra-plan --policy exact solves only very small problems "
                 "(Debian 12: apt-get install coinor-libcbc-dev)")
endif()

if(NOT ADAPTRA_PLANNER_ONLY)
  find_package(MPI QUIET COMPONENTS C)
  if(NOT MPI_C_FOUND)
    adaptra_missing("MPI" "libopenmpi-dev openmpi-bin")
  endif()

  find_package(Kokkos QUIET)
  if(NOT Kokkos_FOUND)
    adaptra_missing("Kokkos" "libtrilinos-kokkos-dev")
  endif()
  if(TARGET trilinos_kokkoscore)
    # 2026-12, Debian 12, Trilinos' build of Kokkos 3.4.1: the exported target names an include folder that is
    # not packaged and a link item that does not exist.
    set_target_properties(
      Kokkos::kokkos PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Kokkos_INCLUDE_DIRS}"
                                INTERFACE_LINK_LIBRARIES "trilinos_kokkoscontainers;trilinos_kokkoscore")
  endif()

  find_package(OpenMP QUIET COMPONENTS CXX)
  if(Kokkos_ENABLE_CUDA)
    find_package(CUDAToolkit REQUIRED) # cuBLAS
  else()
    find_package(OneDNN QUIET)
  endif()
  if(NOT OneDNN_FOUND AND NOT Kokkos_ENABLE_CUDA)
    find_package(BLAS QUIET)
    if(NOT BLAS_FOUND)
      adaptra_missing("Neither oneDNN nor a BLAS" "libdnnl-dev (fast) or libopenblas-dev")
    endif()
  endif()

  find_package(ZLIB QUIET)
  if(NOT ZLIB_FOUND)
    adaptra_missing("zlib" "zlib1g-dev")
  endif()

  find_package(UCX QUIET)
  if(NOT UCX_FOUND)
    adaptra_missing("UCX" "libucx-dev")
  endif()

  set(HDF5_PREFER_PARALLEL ON)
  find_package(HDF5 QUIET COMPONENTS C)
  if(NOT HDF5_FOUND OR NOT HDF5_IS_PARALLEL)
    adaptra_missing("Parallel HDF5" "libhdf5-openmpi-dev")
  endif()
endif()

if(ADAPTRA_BUILD_TESTS)
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    adaptra_missing("GoogleTest (or set -DADAPTRA_BUILD_TESTS=OFF)" "libgtest-dev libgmock-dev")
  endif()
endif()

# How tests start MPI ranks: more ranks than cores, and root in containers.
set(ADAPTRA_MPIEXEC_FLAGS "--oversubscribe;--bind-to;none" CACHE STRING "Flags of mpiexec in tests")
set(ADAPTRA_TEST_ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
