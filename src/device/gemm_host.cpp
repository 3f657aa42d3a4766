// gemm() on the host: oneDNN's sgemm or a BLAS'; bf16 operands are widened into scratch first,
// since the host libraries at hand have no bf16 product below AVX-512.
#include "device/gemm.hpp"

#include <algorithm>
#include <array>

#if ADAPTRA_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#else
extern "C" void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*,
                       const float*, const int*, const float*, const int*, const float*, float*,
                       const int*);
#endif

#include "core/error.hpp"

#if !defined(KOKKOS_ENABLE_CUDA)
namespace adaptra::device {
namespace {

void sgemm(Trans a_op, Trans b_op, const GemmShape& shape, float alpha, Matrix<const float> a,
           Matrix<const float> b, float beta, Matrix<float> c) {
#if ADAPTRA_ONEDNN
  const auto letter = [](Trans op) { return op == Trans::yes ? 'T' : 'N'; };
  const auto status = dnnl_sgemm(letter(a_op), letter(b_op), shape.m, shape.n, shape.k, alpha,
                                 a.data, a.stride, b.data, b.stride, beta, c.data, c.stride);
  if (status != dnnl_success) {
    throw Error(ExitCode::internal, "dnnl_sgemm failed with status " + std::to_string(status));
  }
#else
  // Row-major C = A B is column-major C' = B' A'.
  const auto letter = [](Trans op) { return op == Trans::yes ? 'T' : 'N'; };
  const char ta = letter(b_op), tb = letter(a_op);
  const int m = static_cast<int>(shape.n), n = static_cast<int>(shape.m),
            k = static_cast<int>(shape.k);
  const int lda = static_cast<int>(b.stride), ldb = static_cast<int>(a.stride),
            ldc = static_cast<int>(c.stride);
  sgemm_(&ta, &tb, &m, &n, &k, &alpha, b.data, &lda, a.data, &ldb, &beta, c.data, &ldc);
#endif
}

template <typename From, typename To>
void convert(Matrix<const From> from, std::int64_t rows, std::int64_t columns, Matrix<To> to) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const From* source = from.data + r * from.stride;
    To* target = to.data + r * to.stride;
    for (std::int64_t c = 0; c < columns; ++c) target[c] = To(float(source[c]));
  }
}

}  // namespace

struct Gemm::State {
  std::array<Kokkos::View<float*, Kokkos::HostSpace>, 3> scratch;

  Matrix<const float> widened(int which, Matrix<const Bf16> from, std::int64_t rows,
                              std::int64_t columns) const {
    const auto& space = scratch[static_cast<std::size_t>(which)];
    ADAPTRA_CHECK(static_cast<std::size_t>(rows * columns) <= space.extent(0));
    convert<Bf16, float>(from, rows, columns, {space.data(), columns});
    return {space.data(), columns};
  }
};

Gemm::Gemm(const Exec&, const Scratch& scratch) : state_(std::make_unique<State>()) {
  const std::array sizes = {scratch.a, scratch.b, scratch.c};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) continue;
    state_->scratch[i] = Kokkos::View<float*, Kokkos::HostSpace>(
        Kokkos::view_alloc(std::string("gemm scratch"), Kokkos::WithoutInitializing),
        static_cast<std::size_t>(sizes[i]));
  }
}

Gemm::~Gemm() = default;

template <typename In, typename Out>
void Gemm::run(Trans a_op, Trans b_op, GemmShape shape, float alpha, Matrix<const In> a,
               Matrix<const In> b, float beta, Matrix<Out> c) const {
  const bool at = a_op == Trans::yes, bt = b_op == Trans::yes;
  for (std::int64_t i = 0; i < shape.count; ++i) {
    const Matrix<const In> ai{a.data + i * a.distance, a.stride};
    const Matrix<const In> bi{b.data + i * b.distance, b.stride};
    const Matrix<Out> ci{c.data + i * c.distance, c.stride};
    if constexpr (std::is_same_v<In, float>) {
      sgemm(a_op, b_op, shape, alpha, ai, bi, beta, ci);
    } else {
      const auto aw = state_->widened(0, ai, at ? shape.k : shape.m, at ? shape.m : shape.k);
      const std::int64_t width = std::clamp<std::int64_t>(
          static_cast<std::int64_t>(state_->scratch[1].extent(0)) / shape.k, 1, shape.n);
      for (std::int64_t n0 = 0; n0 < shape.n; n0 += width) {
        const GemmShape slice{shape.m, std::min(width, shape.n - n0), shape.k};
        const Matrix<const In> bs{bt ? bi.data + n0 * bi.stride : bi.data + n0, bi.stride};
        const auto bw = state_->widened(1, bs, bt ? slice.n : slice.k, bt ? slice.k : slice.n);
        const Matrix<Out> cs{ci.data + n0, ci.stride};
        if constexpr (std::is_same_v<Out, float>) {
          sgemm(a_op, b_op, slice, alpha, aw, bw, beta, cs);
        } else {
          const Matrix<float> wide{state_->scratch[2].data(), slice.n};
          if (beta != 0) convert<Out, float>({cs.data, cs.stride}, slice.m, slice.n, wide);
          sgemm(a_op, b_op, slice, alpha, aw, bw, beta, wide);
          convert<float, Out>({wide.data, wide.stride}, slice.m, slice.n, cs);
        }
      }
    }
  }
}

template void Gemm::run<float, float>(Trans, Trans, GemmShape, float, Matrix<const float>,
                                      Matrix<const float>, float, Matrix<float>) const;
template void Gemm::run<Bf16, float>(Trans, Trans, GemmShape, float, Matrix<const Bf16>,
                                     Matrix<const Bf16>, float, Matrix<float>) const;
template void Gemm::run<Bf16, Bf16>(Trans, Trans, GemmShape, float, Matrix<const Bf16>,
                                    Matrix<const Bf16>, float, Matrix<Bf16>) const;

std::string gemm_library() {
#if ADAPTRA_ONEDNN
  return "oneDNN";
#else
  return "BLAS";
#endif
}

}  // namespace adaptra::device
#endif
