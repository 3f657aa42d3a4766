#pragma once
// What goes over MPI, UCX or into files is host memory: these stand between it and the memory of
// the device. Where the host can reach that, nothing is copied. Both wait for the device.

#include "device/session.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace adaptra::device {

using HostFloats = Kokkos::View<float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
using DeviceFloats = Kokkos::View<float*, Memory, Kokkos::MemoryUnmanaged>;

/// `data` where the host can reach it; else a copy of it, kept in `copy`.
inline std::span<float> on_host(std::span<float> data, std::vector<float>& copy) {
  if constexpr (host_accessible) return data;
  copy.resize(data.size());
  Kokkos::deep_copy(HostFloats(copy.data(), copy.size()), DeviceFloats(data.data(), data.size()));
  return copy;
}

/// Writes what on_host() gave back to the device.
inline void back_to_device(std::vector<float>& copy, std::span<float> data) {
  if constexpr (host_accessible) return;
  Kokkos::deep_copy(DeviceFloats(data.data(), data.size()), HostFloats(copy.data(), copy.size()));
}

}  // namespace adaptra::device
