#pragma once
// The one front for matrix products. All matrices are row-major; the accumulation is in float,
// whatever the operands. Backends: oneDNN or any BLAS on the host, cuBLAS on CUDA. For equal
// shapes, threads and machine the result has the same bits every time.

#include "device/bf16.hpp"
#include "device/session.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace adaptra::device {

enum class Trans { no, yes };

/// A row-major matrix, or `count` of them at a fixed distance.
template <typename T>
struct Matrix {
  T* data = nullptr;
  std::int64_t stride = 0;    ///< elements from one row to the next
  std::int64_t distance = 0;  ///< elements from one matrix of a batch to the next
};

/// Shape of one product: C[m,n] = alpha op(A)[m,k] op(B)[k,n] + beta C[m,n], `count` times.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t count = 1;
};

/// Matrix products in the order of one execution space. Holds the library handle and, on hosts
/// without bf16 units, the float scratch that bf16 operands are widened into; nothing is allocated
/// in a call.
class Gemm {
 public:
  /// Host: scratch for products with bf16 matrices, in elements: the largest m*k of an A and m*n of
  /// a bf16 C; a B is widened in slices of its columns, so `b` is at least its k and better some
  /// hundred times that.
  struct Scratch {
    std::int64_t a = 0, b = 0, c = 0;
    static constexpr bool needed = host_accessible;  ///< GPUs multiply bf16 as it is
    static constexpr std::int64_t library_bytes = std::int64_t{32} << 20;  ///< cuBLAS, sm_90
    std::int64_t bytes() const { return needed ? 4 * (a + b + c) : library_bytes; }
  };
  Gemm(const Exec& exec, const Scratch& scratch);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// A and B of type In (float or Bf16), C of type Out (float, or In).
  template <typename In, typename Out>
  void run(Trans a_op, Trans b_op, GemmShape shape, float alpha, Matrix<const In> a,
           Matrix<const In> b, float beta, Matrix<Out> c) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace adaptra::device
