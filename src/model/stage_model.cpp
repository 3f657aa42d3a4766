#include "model/stage_model.hpp"

#include "device/gemm.hpp"
#include "model/attention.hpp"
#include "model/column_sum.hpp"
#include "model/cross_entropy.hpp"
#include "model/elementwise.hpp"
#include "model/embedding.hpp"
#include "model/layernorm.hpp"
#include "model/workspace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

namespace adaptra::model {
namespace {

using device::Bf16;
using device::Buffer;
using device::Trans;

template <typename T>
Buffer<T> allocate(const char* label, std::int64_t elements) {
  return Buffer<T>(Kokkos::view_alloc(std::string(label), Kokkos::WithoutInitializing),
                   static_cast<std::size_t>(elements));
}

template <typename T>
std::span<T> span_of(const Buffer<T>& buffer) {
  return {buffer.data(), buffer.extent(0)};
}

/// Equal blocks of memory, taken and given back in the order of the ops.
template <typename T>
class BlockPool {
 public:
  void reset(std::int64_t block_elements, int blocks) {
    memory_ = {};
    memory_ = allocate<T>("activations", block_elements * blocks);
    free_.clear();
    for (int i = blocks - 1; i >= 0; --i) free_.push_back(memory_.data() + i * block_elements);
    free_.shrink_to_fit();
  }
  std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.extent(0) * sizeof(T)); }
  T* take() {
    if (free_.empty()) {
      throw Error(ExitCode::internal,
                  "activation blocks are used up: the plan needs more than the "
                  "stage was told to reserve");
    }
    T* block = free_.back();
    free_.pop_back();
    return block;
  }
  /// Gives a block back and forgets it.
  void give(T*& block) {
    free_.push_back(block);
    block = nullptr;
  }

 private:
  Buffer<T> memory_;
  std::vector<T*> free_;
};

/// One pool per width: [M,C], [M,3C] and [M,4C].
template <typename T>
struct Pools {
  BlockPool<T> one, three, four;
};

/// What a layer keeps of a microbatch.
template <typename T>
struct LayerState {
  // F to B
  T* x = nullptr;          // [M,C] input
  T* qkv = nullptr;        // [M,3C]
  T* attention = nullptr;  // [M,C] heads' outputs; until W
  T* x2 = nullptr;         // [M,C] after the attention
  T* act = nullptr;        // [M,4C] before GELU until B, after it until W
  // B to W
  T* h1 = nullptr;      // [M,C] output of LayerNorm 1
  T* h2 = nullptr;      // [M,C] output of LayerNorm 2
  T* d_qkv = nullptr;   // [M,3C]
  T* d_proj = nullptr;  // [M,C]
  T* d_fc = nullptr;    // [M,4C]
  T* d_out = nullptr;   // [M,C]
};

template <typename T>
struct MicrobatchState {
  std::vector<LayerState<T>> layers;
  T* head_x = nullptr;   // [M,C] input of the final LayerNorm
  T* head_dh = nullptr;  // [M,C] gradient of its output
  int token_groups = 0;
  double loss_scale = 0;
};

/// Where a layer's tensors are in the stage's buffers.
struct LayerOffsets {
  std::int64_t ln1_w, ln1_b, qkv_w, qkv_b, proj_w, proj_b, ln2_w, ln2_b, fc_w, fc_b, out_w, out_b;
};

enum class Purpose { training, evaluation };
enum Site : std::uint64_t { site_embedding = 0, site_attention, site_proj, site_out };

template <typename T>
class StageModelOf final : public StageModel {
 public:
  StageModelOf(const Config& config, const StagePart& part, const Batch& batch,
               const Capacity& capacity)
      : config_(config),
        part_(part),
        batch_(batch),
        rows_(batch.rows()),
        sizes_(WorkspaceSizes::of(config, part, batch)),
        statistics_(StatisticsSizes::of(config, part, batch)),
        parameters_(list_parameters(config, part)),
        gemm_(exec_, sizes_.gemm) {
    allocate_parameters();
    allocate_workspace();
    reserve(capacity);
    initialise_weights();
  }

  const Config& config() const override { return config_; }
  const StagePart& part() const override { return part_; }
  const Batch& batch() const override { return batch_; }
  const device::Exec& exec() const override { return exec_; }

  int in_flight() const override { return static_cast<int>(states_.size()); }
  void reserve(const Capacity& capacity) override;
  void begin_step() override;
  void set_tokens(const Microbatch& microbatch, std::span<const std::int32_t> tokens,
                  std::span<const std::int32_t> targets) override;
  void forward(const Microbatch& microbatch, const void* input, void* output,
               double loss_scale) override;
  void backward_input(const Microbatch& microbatch, const void* output_gradient,
                      void* input_gradient) override;
  void backward_weight(const Microbatch& microbatch) override;
  void evaluate(const Microbatch& microbatch, const void* input, void* output) override;
  std::vector<double> losses() override;

  const std::vector<Parameter>& parameters() const override { return parameters_; }
  std::span<float> weights() override { return span_of(weights_); }
  std::span<float> gradients() override { return span_of(gradients_); }
  std::span<float> first_moments() override { return span_of(moment1_); }
  std::span<float> second_moments() override { return span_of(moment2_); }
  void weights_changed() override;

  std::span<float> tied_own() override {
    return tied_other_.extent(0) == 0 ? std::span<float>()
                                      : std::span<float>(gradients_.data(), tied_other_.extent(0));
  }
  std::span<float> tied_other() override { return span_of(tied_other_); }
  void add_tied() override;
  std::vector<double> gradient_squares() override;
  void update(const AdamW& adam) override;
  void finish() override { exec_.fence(); }
  std::int64_t allocated_bytes() const override;

 private:
  void allocate_parameters();
  void allocate_workspace();
  void initialise_weights();

  // Pieces of F, B and W.
  void layer_forward(int layer, LayerState<T>& state, float* stats, const Microbatch& microbatch,
                     T* output, Purpose purpose);
  void layer_backward(int layer, LayerState<T>& state, const float* stats,
                      const Microbatch& microbatch, const T* d_output, T* d_input);
  void layer_weight_gradients(int layer, LayerState<T>& state);
  void layer_discard(LayerState<T>& state);
  void head_forward(MicrobatchState<T>& state, const Microbatch& microbatch, Purpose purpose);
  void head_logits(const T* h, std::int64_t begin, std::int64_t rows);
  void run_forward(const Microbatch& microbatch, const void* input, void* output, Purpose purpose);
  void embedding_gradient(MicrobatchState<T>& state, const Microbatch& microbatch, const T* dx);

  // y[M,n] = x[M,k] w[k,n]
  void product(const T* x, std::int64_t offset, int k, int n, T* y) {
    gemm_.run<T, T>(Trans::no, Trans::no, {rows_, n, k}, 1.0F, {x, k}, {copy(offset), n}, 0.0F,
                    {y, n});
  }
  // dx[M,k] = dy[M,n] w[k,n]'
  void product_back(const T* dy, std::int64_t offset, int k, int n, T* dx) {
    gemm_.run<T, T>(Trans::no, Trans::yes, {rows_, k, n}, 1.0F, {dy, n}, {copy(offset), n}, 0.0F,
                    {dx, k});
  }
  // dw[k,n] += x[M,k]' dy[M,n]
  void product_weight(const T* x, const T* dy, std::int64_t offset, int k, int n) {
    gemm_.run<T, float>(Trans::yes, Trans::no, {k, n, rows_}, 1.0F, {x, k}, {dy, n}, 1.0F,
                        {gradients_.data() + offset, n});
  }
  const T* copy(std::int64_t offset) const {
    if constexpr (std::is_same_v<T, float>) {
      return weights_.data() + offset;
    } else {
      return copies_.data() + offset;
    }
  }
  const float* weight(std::int64_t offset) const { return weights_.data() + offset; }
  float* gradient(std::int64_t offset) const { return gradients_.data() + offset; }
  Dropout dropout(const Microbatch& microbatch, int layer, Site site,
                  Purpose purpose = Purpose::training) const {
    if (purpose == Purpose::evaluation || config_.dropout <= 0) return Dropout::none();
    const auto key = combine(combine(config_.seed, microbatch.key),
                             static_cast<std::uint64_t>(layer) * 4 + site);
    return Dropout::with(config_.dropout, key);
  }
  AttentionScratch<T> attention_scratch() const;

  // Statistics of a place: per layer mean1 rstd1 mean2 rstd2 [M] and lse [B,H,T]; head: mean rstd
  // [M].
  float* layer_stats(const Microbatch& mb, int layer) const {
    return floats_.data() + mb.place * statistics_.floats + layer * rows_ * (4 + config_.heads);
  }
  float* head_stats(const Microbatch& mb) const { return layer_stats(mb, part_.layers); }
  std::int32_t* token_memory(const Microbatch& mb) const {
    return integers_.data() + mb.place * statistics_.integers;
  }
  std::int32_t* target_memory(const Microbatch& mb) const {
    return token_memory(mb) + (part_.embedding ? 4 * rows_ + 1 : 0);
  }

  Config config_;
  StagePart part_;
  Batch batch_;
  std::int64_t rows_;
  WorkspaceSizes sizes_;
  StatisticsSizes statistics_;
  std::vector<Parameter> parameters_;
  std::vector<LayerOffsets> offsets_;
  std::int64_t wpe_ = 0, lnf_w_ = 0, lnf_b_ = 0;

  device::Exec exec_;
  device::Gemm gemm_;
  Buffer<float> weights_, gradients_, moment1_, moment2_, tied_other_;
  Buffer<T> copies_;
  Buffer<Piece> pieces_;
  std::vector<Piece> piece_list_;
  Buffer<double> piece_squares_, losses_;
  typename Buffer<double>::HostMirror piece_squares_host_, losses_host_;
  Buffer<T> wide_, narrow_a_, narrow_b_, narrow_c_, attention_tile_, d_logits_;
  Buffer<float> scores_, accumulator_, partial_, logits_, row_loss_;
  Buffer<float> floats_;
  Buffer<std::int32_t> integers_;
  typename Buffer<std::int32_t>::HostMirror integers_host_;
  Pools<T> pools_;
  std::vector<MicrobatchState<T>> states_;
};

template <typename T>
void StageModelOf<T>::allocate_parameters() {
  std::int64_t elements = 0;
  for (const auto& parameter : parameters_) {
    elements = parameter.offset + parameter.padded_elements;
    for (std::int64_t at = 0; at < parameter.padded_elements; at += optimizer_piece_elements) {
      const auto n = std::min(optimizer_piece_elements, parameter.padded_elements - at);
      piece_list_.push_back(
          {parameter.offset + at, static_cast<std::int32_t>(n), parameter.decayed ? 1 : 0});
    }
  }
  weights_ = allocate<float>("weights", elements);
  gradients_ = allocate<float>("gradients", elements);
  moment1_ = allocate<float>("first moments", elements);
  moment2_ = allocate<float>("second moments", elements);
  if constexpr (!std::is_same_v<T, float>) copies_ = allocate<T>("weights, bf16", elements);
  if (part_.embedding || part_.head) {
    tied_other_ = allocate<float>("tied gradient", parameters_.front().padded_elements);
    device::clear(exec_, tied_other_.data(), static_cast<std::int64_t>(tied_other_.extent(0)));
  }
  device::clear(exec_, weights_.data(), static_cast<std::int64_t>(weights_.extent(0)));
  device::clear(exec_, gradients_.data(), static_cast<std::int64_t>(gradients_.extent(0)));
  device::clear(exec_, moment1_.data(), static_cast<std::int64_t>(moment1_.extent(0)));
  device::clear(exec_, moment2_.data(), static_cast<std::int64_t>(moment2_.extent(0)));

  pieces_ = allocate<Piece>("pieces", static_cast<std::int64_t>(piece_list_.size()));
  Kokkos::deep_copy(pieces_, Kokkos::View<Piece*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                                 piece_list_.data(), piece_list_.size()));
  piece_squares_ =
      allocate<double>("gradient squares", static_cast<std::int64_t>(piece_list_.size()));
  piece_squares_host_ = Kokkos::create_mirror_view(piece_squares_);

  std::size_t next = part_.embedding || part_.head ? 1 : 0;
  if (part_.embedding) wpe_ = parameters_[next++].offset;
  for (int l = 0; l < part_.layers; ++l) {
    const auto at = [&](std::size_t i) { return parameters_[next + i].offset; };
    offsets_.push_back(
        {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9), at(10), at(11)});
    next += 12;
  }
  if (part_.head) {
    lnf_w_ = parameters_[next].offset;
    lnf_b_ = parameters_[next + 1].offset;
  }
}

template <typename T>
void StageModelOf<T>::allocate_workspace() {
  wide_ = allocate<T>("workspace", sizes_.wide);
  narrow_a_ = allocate<T>("workspace", sizes_.narrow);
  narrow_b_ = allocate<T>("workspace", sizes_.narrow);
  narrow_c_ = allocate<T>("workspace", sizes_.narrow);
  attention_tile_ = allocate<T>("attention tiles", 2 * sizes_.attention_tile);
  d_logits_ = allocate<T>("gradient of the logits", sizes_.d_logits);
  scores_ = allocate<float>("attention scores", 2 * sizes_.attention_scores);
  accumulator_ = allocate<float>("attention gradients", sizes_.attention_accumulator);
  partial_ = allocate<float>("column sums", sizes_.column_partial);
  logits_ = allocate<float>("logits", sizes_.logits);
  row_loss_ = allocate<float>("losses of the rows", sizes_.row_loss);
}

template <typename T>
void StageModelOf<T>::reserve(const Capacity& capacity) {
  finish();
  const std::int64_t unit = rows_ * config_.channels;
  pools_.one.reset(unit, capacity.activations.one);
  pools_.three.reset(3 * unit, capacity.activations.three);
  pools_.four.reset(4 * unit, capacity.activations.four);
  floats_ = {};
  integers_ = {};
  integers_host_ = {};
  floats_ = allocate<float>("statistics", capacity.in_flight * statistics_.floats);
  integers_ = allocate<std::int32_t>("tokens", capacity.in_flight * statistics_.integers);
  integers_host_ = Kokkos::create_mirror_view(integers_);
  losses_ = allocate<double>("losses", capacity.microbatches);
  losses_host_ = Kokkos::create_mirror_view(losses_);
  states_.assign(static_cast<std::size_t>(capacity.in_flight), {});
  for (auto& state : states_) state.layers.resize(static_cast<std::size_t>(part_.layers));
}

template <typename T>
void StageModelOf<T>::initialise_weights() {
  for (const auto& parameter : parameters_) {
    std::vector<float> values(static_cast<std::size_t>(parameter.elements()));
    fill_initial(config_, parameter, values);
    using Host = Kokkos::View<float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
    using Device =
        Kokkos::View<float*, Kokkos::LayoutRight, device::Memory, Kokkos::MemoryUnmanaged>;
    Kokkos::deep_copy(Device(weights_.data() + parameter.offset, values.size()),
                      Host(values.data(), values.size()));
  }
  weights_changed();
  finish();
}

template <typename T>
void StageModelOf<T>::weights_changed() {
  if constexpr (!std::is_same_v<T, float>) {
    device::convert(exec_, static_cast<std::int64_t>(weights_.extent(0)), weights_.data(),
                    copies_.data());
  }
}

template <typename T>
void StageModelOf<T>::begin_step() {
  device::clear(exec_, gradients_.data(), static_cast<std::int64_t>(gradients_.extent(0)));
  if (part_.embedding && part_.head) {
    device::clear(exec_, tied_other_.data(), static_cast<std::int64_t>(tied_other_.extent(0)));
  }
}

template <typename T>
void StageModelOf<T>::set_tokens(const Microbatch& microbatch, std::span<const std::int32_t> tokens,
                                 std::span<const std::int32_t> targets) {
  const std::int64_t begin = microbatch.place * statistics_.integers;
  std::int32_t* host = integers_host_.data() + begin;
  if (part_.embedding) {
    const TokenGroups groups = TokenGroups::of(tokens);
    states_[static_cast<std::size_t>(microbatch.place)].token_groups =
        static_cast<int>(groups.token.size());
    std::copy(tokens.begin(), tokens.end(), host);
    std::copy(groups.rows.begin(), groups.rows.end(), host + rows_);
    std::copy(groups.token.begin(), groups.token.end(), host + 2 * rows_);
    std::copy(groups.start.begin(), groups.start.end(), host + 3 * rows_);
    host += 4 * rows_ + 1;
  }
  if (part_.head) std::copy(targets.begin(), targets.end(), host);
  if (!device::host_accessible) {
    const auto range = std::make_pair(begin, begin + statistics_.integers);
    Kokkos::deep_copy(exec_, Kokkos::subview(integers_, range),
                      Kokkos::subview(integers_host_, range));
  }
}

template <typename T>
AttentionScratch<T> StageModelOf<T>::attention_scratch() const {
  AttentionScratch<T> scratch;
  scratch.scores = scores_.data();
  scratch.d_weights = scores_.data() + sizes_.attention_scores;
  scratch.accumulator = accumulator_.data();
  if constexpr (std::is_same_v<T, float>) {
    scratch.weights = scratch.scores;
    scratch.d_scores = scratch.d_weights;
  } else {
    scratch.weights = attention_tile_.data();
    scratch.d_scores = attention_tile_.data() + sizes_.attention_tile;
  }
  return scratch;
}

template <typename T>
void StageModelOf<T>::layer_forward(int layer, LayerState<T>& state, float* stats,
                                    const Microbatch& microbatch, T* output, Purpose purpose) {
  const int c = config_.channels;
  const LayerOffsets& at = offsets_[static_cast<std::size_t>(layer)];
  const int global_layer = part_.first_layer + layer;
  float *mean1 = stats, *rstd1 = mean1 + rows_, *mean2 = rstd1 + rows_, *rstd2 = mean2 + rows_,
        *lse = rstd2 + rows_;
  state.qkv = pools_.three.take();
  state.attention = pools_.one.take();
  state.x2 = pools_.one.take();
  state.act = pools_.four.take();
  T *h = narrow_a_.data(), *y = narrow_b_.data();

  layernorm_forward(exec_, rows_, c, state.x, weight(at.ln1_w), weight(at.ln1_b), h, mean1, rstd1);
  product(h, at.qkv_w, c, 3 * c, state.qkv);
  add_bias(exec_, rows_, 3 * c, weight(at.qkv_b), state.qkv);
  attention_forward(exec_, gemm_, config_, batch_, state.qkv,
                    dropout(microbatch, global_layer, site_attention, purpose), attention_scratch(),
                    state.attention, lse);
  product(state.attention, at.proj_w, c, c, y);
  bias_residual(exec_, rows_, c, y, weight(at.proj_b), state.x,
                dropout(microbatch, global_layer, site_proj, purpose), state.x2);
  layernorm_forward(exec_, rows_, c, state.x2, weight(at.ln2_w), weight(at.ln2_b), h, mean2, rstd2);
  product(h, at.fc_w, c, 4 * c, state.act);
  bias_gelu(exec_, rows_, 4 * c, weight(at.fc_b), state.act, wide_.data());
  product(wide_.data(), at.out_w, 4 * c, c, y);
  bias_residual(exec_, rows_, c, y, weight(at.out_b), state.x2,
                dropout(microbatch, global_layer, site_out, purpose), output);
}

template <typename T>
void StageModelOf<T>::layer_backward(int layer, LayerState<T>& state, const float* stats,
                                     const Microbatch& microbatch, const T* d_output, T* d_input) {
  const int c = config_.channels;
  const LayerOffsets& at = offsets_[static_cast<std::size_t>(layer)];
  const int global_layer = part_.first_layer + layer;
  const float *mean1 = stats, *rstd1 = mean1 + rows_, *mean2 = rstd1 + rows_,
              *rstd2 = mean2 + rows_, *lse = rstd2 + rows_;
  state.h1 = pools_.one.take();
  state.h2 = pools_.one.take();
  state.d_proj = pools_.one.take();
  state.d_out = pools_.one.take();
  state.d_qkv = pools_.three.take();
  state.d_fc = pools_.four.take();
  T *d = narrow_a_.data(), *d_x2 = narrow_b_.data();
  float* partial = partial_.data();

  // MLP
  dropout_backward(exec_, rows_ * c, d_output, dropout(microbatch, global_layer, site_out),
                   state.d_out);
  add_column_sum(exec_, rows_, c, state.d_out, partial, gradient(at.out_b));
  product_back(state.d_out, at.out_w, 4 * c, c, wide_.data());
  gelu_backward(exec_, rows_, 4 * c, wide_.data(), state.act, state.d_fc);
  add_column_sum(exec_, rows_, 4 * c, state.d_fc, partial, gradient(at.fc_b));
  product_back(state.d_fc, at.fc_w, c, 4 * c, d);
  add_layernorm_gradients(exec_, rows_, c, d, state.x2, mean2, rstd2, partial, gradient(at.ln2_w),
                          gradient(at.ln2_b));
  layernorm_again(exec_, rows_, c, state.x2, weight(at.ln2_w), weight(at.ln2_b), mean2, rstd2,
                  state.h2);
  layernorm_backward(exec_, rows_, c, d, state.x2, weight(at.ln2_w), mean2, rstd2, d_output, d_x2);
  // attention
  dropout_backward(exec_, rows_ * c, d_x2, dropout(microbatch, global_layer, site_proj),
                   state.d_proj);
  add_column_sum(exec_, rows_, c, state.d_proj, partial, gradient(at.proj_b));
  product_back(state.d_proj, at.proj_w, c, c, d);
  attention_backward(exec_, gemm_, config_, batch_, state.qkv, state.attention, d, lse,
                     dropout(microbatch, global_layer, site_attention), attention_scratch(),
                     state.d_qkv);
  add_column_sum(exec_, rows_, 3 * c, state.d_qkv, partial, gradient(at.qkv_b));
  product_back(state.d_qkv, at.qkv_w, c, 3 * c, d);
  add_layernorm_gradients(exec_, rows_, c, d, state.x, mean1, rstd1, partial, gradient(at.ln1_w),
                          gradient(at.ln1_b));
  layernorm_again(exec_, rows_, c, state.x, weight(at.ln1_w), weight(at.ln1_b), mean1, rstd1,
                  state.h1);
  layernorm_backward(exec_, rows_, c, d, state.x, weight(at.ln1_w), mean1, rstd1, d_x2, d_input);

  pools_.one.give(state.x);
  pools_.one.give(state.x2);
  pools_.three.give(state.qkv);
}

template <typename T>
void StageModelOf<T>::layer_weight_gradients(int layer, LayerState<T>& state) {
  const int c = config_.channels;
  const LayerOffsets& at = offsets_[static_cast<std::size_t>(layer)];
  product_weight(state.h1, state.d_qkv, at.qkv_w, c, 3 * c);
  product_weight(state.attention, state.d_proj, at.proj_w, c, c);
  product_weight(state.h2, state.d_fc, at.fc_w, c, 4 * c);
  product_weight(state.act, state.d_out, at.out_w, 4 * c, c);
  for (T** block : {&state.h1, &state.h2, &state.d_proj, &state.d_out, &state.attention}) {
    pools_.one.give(*block);
  }
  pools_.three.give(state.d_qkv);
  pools_.four.give(state.act);
  pools_.four.give(state.d_fc);
}

template <typename T>
void StageModelOf<T>::layer_discard(LayerState<T>& state) {
  for (T** block : {&state.x, &state.x2, &state.attention}) pools_.one.give(*block);
  pools_.three.give(state.qkv);
  pools_.four.give(state.act);
}

template <typename T>
void StageModelOf<T>::head_logits(const T* h, std::int64_t begin, std::int64_t rows) {
  const int c = config_.channels, padded = config_.padded_vocabulary();
  gemm_.run<T, float>(Trans::no, Trans::yes, {rows, padded, c}, 1.0F, {h + begin * c, c},
                      {copy(0), c}, 0.0F, {logits_.data(), padded});
}

template <typename T>
void StageModelOf<T>::head_forward(MicrobatchState<T>& state, const Microbatch& microbatch,
                                   Purpose purpose) {
  const int c = config_.channels, v = config_.vocabulary, padded = config_.padded_vocabulary();
  float *mean = head_stats(microbatch), *rstd = mean + rows_;
  const std::int32_t* targets = target_memory(microbatch);
  T* h = narrow_a_.data();
  float* d_embedding = part_.embedding ? tied_other_.data() : gradient(0);
  layernorm_forward(exec_, rows_, c, state.head_x, weight(lnf_w_), weight(lnf_b_), h, mean, rstd);
  const std::int64_t chunk = head_chunk_rows(rows_, padded);
  for (std::int64_t begin = 0; begin < rows_; begin += chunk) {
    const std::int64_t n = std::min(chunk, rows_ - begin);
    head_logits(h, begin, n);
    if (purpose == Purpose::evaluation) {
      cross_entropy(exec_, n, v, padded, logits_.data(), targets + begin, row_loss_.data() + begin);
      continue;
    }
    // Both gradients are formed while the chunk of logits exists: nothing of size V is kept, and
    // the logits, a large part of a small model's work, are not formed twice.
    T* d_logits = nullptr;
    if constexpr (std::is_same_v<T, float>) {
      d_logits = logits_.data();
    } else {
      d_logits = d_logits_.data();
    }
    cross_entropy_gradient(exec_, n, v, padded, logits_.data(), targets + begin,
                           static_cast<float>(state.loss_scale), row_loss_.data() + begin,
                           d_logits);
    gemm_.run<T, T>(Trans::no, Trans::no, {n, c, padded}, 1.0F, {d_logits, padded}, {copy(0), c},
                    0.0F, {state.head_dh + begin * c, c});
    gemm_.run<T, float>(Trans::yes, Trans::no, {padded, c, n}, 1.0F, {d_logits, padded},
                        {h + begin * c, c}, 1.0F, {d_embedding, c});
  }
  sum_losses(exec_, rows_, row_loss_.data(), losses_.data() + microbatch.index);
}

template <typename T>
void StageModelOf<T>::run_forward(const Microbatch& microbatch, const void* input, void* output,
                                  Purpose purpose) {
  const int c = config_.channels;
  MicrobatchState<T>& state = states_[static_cast<std::size_t>(microbatch.place)];
  T* x = pools_.one.take();
  if (part_.embedding) {
    embed(exec_, rows_, batch_.tokens, c, token_memory(microbatch), copy(0), copy(wpe_),
          dropout(microbatch, 0, site_embedding, purpose), x);
  } else {
    device::convert(exec_, rows_ * c, static_cast<const T*>(input), x);
  }
  for (int l = 0; l < part_.layers; ++l) {
    LayerState<T>& layer = state.layers[static_cast<std::size_t>(l)];
    layer.x = x;
    const bool last = l + 1 == part_.layers;
    x = last && !part_.head ? static_cast<T*>(output) : pools_.one.take();
    layer_forward(l, layer, layer_stats(microbatch, l), microbatch, x, purpose);
    if (purpose == Purpose::evaluation) layer_discard(layer);
  }
  if (!part_.head) return;
  state.head_x = x;
  if (purpose == Purpose::training) state.head_dh = pools_.one.take();
  head_forward(state, microbatch, purpose);
  if (purpose == Purpose::evaluation) pools_.one.give(state.head_x);
}

template <typename T>
void StageModelOf<T>::forward(const Microbatch& microbatch, const void* input, void* output,
                              double loss_scale) {
  states_[static_cast<std::size_t>(microbatch.place)].loss_scale = loss_scale;
  run_forward(microbatch, input, output, Purpose::training);
}

template <typename T>
void StageModelOf<T>::evaluate(const Microbatch& microbatch, const void* input, void* output) {
  run_forward(microbatch, input, output, Purpose::evaluation);
}

template <typename T>
void StageModelOf<T>::backward_input(const Microbatch& microbatch, const void* output_gradient,
                                     void* input_gradient) {
  const int c = config_.channels;
  MicrobatchState<T>& state = states_[static_cast<std::size_t>(microbatch.place)];
  const T* up = static_cast<const T*>(output_gradient);
  if (part_.head) {
    const float *mean = head_stats(microbatch), *rstd = mean + rows_;
    add_layernorm_gradients(exec_, rows_, c, state.head_dh, state.head_x, mean, rstd,
                            partial_.data(), gradient(lnf_w_), gradient(lnf_b_));
    layernorm_backward<T>(exec_, rows_, c, state.head_dh, state.head_x, weight(lnf_w_), mean, rstd,
                          nullptr, narrow_c_.data());
    pools_.one.give(state.head_x);
    pools_.one.give(state.head_dh);
    up = narrow_c_.data();
  }
  for (int l = part_.layers - 1; l >= 0; --l) {
    T* down = l == 0 && !part_.embedding ? static_cast<T*>(input_gradient) : narrow_c_.data();
    layer_backward(l, state.layers[static_cast<std::size_t>(l)], layer_stats(microbatch, l),
                   microbatch, up, down);
    up = down;
  }
  if (part_.embedding) embedding_gradient(state, microbatch, up);
}

template <typename T>
void StageModelOf<T>::embedding_gradient(MicrobatchState<T>& state, const Microbatch& microbatch,
                                         const T* dx) {
  const int c = config_.channels;
  const std::int32_t* tokens = token_memory(microbatch);
  const Dropout drop = dropout(microbatch, 0, site_embedding);
  add_token_gradient(exec_, state.token_groups, c, tokens + rows_, tokens + 2 * rows_,
                     tokens + 3 * rows_, dx, drop, gradient(0));
  add_position_gradient(exec_, batch_.sequences, batch_.tokens, c, dx, drop, gradient(wpe_));
}

template <typename T>
void StageModelOf<T>::backward_weight(const Microbatch& microbatch) {
  MicrobatchState<T>& state = states_[static_cast<std::size_t>(microbatch.place)];
  for (int l = part_.layers - 1; l >= 0; --l) {
    layer_weight_gradients(l, state.layers[static_cast<std::size_t>(l)]);
  }
}

template <typename T>
std::vector<double> StageModelOf<T>::losses() {
  Kokkos::deep_copy(exec_, losses_host_, losses_);
  exec_.fence();
  return {losses_host_.data(), losses_host_.data() + losses_host_.extent(0)};
}

template <typename T>
void StageModelOf<T>::add_tied() {
  add(exec_, static_cast<std::int64_t>(tied_other_.extent(0)), tied_other_.data(),
      gradients_.data());
}

template <typename T>
std::vector<double> StageModelOf<T>::gradient_squares() {
  const auto count = static_cast<std::int64_t>(piece_list_.size());
  piece_squares(exec_, count, pieces_.data(), gradients_.data(), piece_squares_.data());
  Kokkos::deep_copy(exec_, piece_squares_host_, piece_squares_);
  exec_.fence();
  std::vector<double> sums(parameters_.size(), 0.0);
  std::size_t piece = 0;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const std::int64_t end = parameters_[p].offset + parameters_[p].padded_elements;
    const bool copy_of_tied = parameters_[p].index == 0 && !part_.embedding;
    for (; piece < piece_list_.size() && piece_list_[piece].offset < end; ++piece) {
      if (!copy_of_tied) sums[p] += piece_squares_host_(piece);
    }
  }
  return sums;
}

template <typename T>
void StageModelOf<T>::update(const AdamW& adam) {
  adamw_update<T>(exec_, static_cast<std::int64_t>(piece_list_.size()), pieces_.data(), adam,
                  gradients_.data(), weights_.data(), moment1_.data(), moment2_.data(),
                  copies_.data());
}

template <typename T>
std::int64_t StageModelOf<T>::allocated_bytes() const {
  const auto bytes = [](const auto&... buffers) {
    return (static_cast<std::int64_t>(
                buffers.extent(0) * sizeof(typename std::decay_t<decltype(buffers)>::value_type)) +
            ...);
  };
  return bytes(weights_, gradients_, moment1_, moment2_, tied_other_, copies_, pieces_,
               piece_squares_, losses_, wide_, narrow_a_, narrow_b_, narrow_c_, attention_tile_,
               d_logits_, scores_, accumulator_, partial_, logits_, row_loss_, floats_, integers_) +
         pools_.one.bytes() + pools_.three.bytes() + pools_.four.bytes() + sizes_.gemm.bytes();
}

}  // namespace

std::unique_ptr<StageModel> StageModel::make(const Config& config, const StagePart& part,
                                             const Batch& batch, const Capacity& capacity) {
  try {
    if (config.precision == Precision::fp32) {
      return std::make_unique<StageModelOf<float>>(config, part, batch, capacity);
    }
    return std::make_unique<StageModelOf<Bf16>>(config, part, batch, capacity);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ExitCode::environment,
                fmt::format("memory for layers {} to {} is short: {}; use more stages, a smaller "
                            "microbatch or fewer microbatches in flight",
                            part.first_layer, part.first_layer + part.layers - 1, error.what()));
  }
}

}  // namespace adaptra::model
