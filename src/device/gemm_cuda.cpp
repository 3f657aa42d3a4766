// gemm() on NVIDIA GPUs: cuBLAS, on the stream of the execution space.
#include "device/gemm.hpp"

#if defined(KOKKOS_ENABLE_CUDA)
#include "core/error.hpp"

#include <cublas_v2.h>

#include <string>

namespace adaptra::device {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(ExitCode::internal, std::string(call) + ": " + cublasGetStatusString(status));
  }
}

template <typename T>
constexpr cudaDataType_t cuda_type = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;

cublasOperation_t operation(Trans op) {
  return op == Trans::yes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

struct Gemm::State {
  cublasHandle_t handle = nullptr;
  Buffer<unsigned char> workspace;
};

Gemm::Gemm(const Exec& exec, const Scratch&) : state_(std::make_unique<State>()) {
  check(cublasCreate(&state_->handle), "cublasCreate");
  check(cublasSetStream(state_->handle, exec.cuda_stream()), "cublasSetStream");
  // Ours, so that cuBLAS allocates nothing in a step and sums in the same order every time.
  state_->workspace =
      Buffer<unsigned char>(Kokkos::view_alloc(std::string("cuBLAS"), Kokkos::WithoutInitializing),
                            static_cast<std::size_t>(Scratch::library_bytes));
  check(cublasSetWorkspace(state_->handle, state_->workspace.data(), state_->workspace.extent(0)),
        "cublasSetWorkspace");
}

Gemm::~Gemm() {
  cublasDestroy(state_->handle);
}

template <typename In, typename Out>
void Gemm::run(Trans a_op, Trans b_op, GemmShape shape, float alpha, Matrix<const In> a,
               Matrix<const In> b, float beta, Matrix<Out> c) const {
  // Row-major C = A B is column-major C' = B' A'.
  check(
      cublasGemmStridedBatchedEx(
          state_->handle, operation(b_op), operation(a_op), static_cast<int>(shape.n),
          static_cast<int>(shape.m), static_cast<int>(shape.k), &alpha, b.data, cuda_type<In>,
          static_cast<int>(b.stride), b.distance, a.data, cuda_type<In>, static_cast<int>(a.stride),
          a.distance, &beta, c.data, cuda_type<Out>, static_cast<int>(c.stride), c.distance,
          static_cast<int>(shape.count), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      "cublasGemmStridedBatchedEx");
}

template void Gemm::run<float, float>(Trans, Trans, GemmShape, float, Matrix<const float>,
                                      Matrix<const float>, float, Matrix<float>) const;
template void Gemm::run<Bf16, float>(Trans, Trans, GemmShape, float, Matrix<const Bf16>,
                                     Matrix<const Bf16>, float, Matrix<float>) const;
template void Gemm::run<Bf16, Bf16>(Trans, Trans, GemmShape, float, Matrix<const Bf16>,
                                    Matrix<const Bf16>, float, Matrix<Bf16>) const;

std::string gemm_library() {
  return "cuBLAS";
}

}  // namespace adaptra::device
#endif
