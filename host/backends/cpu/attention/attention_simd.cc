// The table of the attention functions of one instruction set.
#include "backends/cpu/attention/attention_simd.h"

#include "backends/cpu/attention/backward_simd.h"
#include "backends/cpu/attention/decode_simd.h"
#include "backends/cpu/attention/forward_simd.h"
#include "backends/cpu/attention/index_scores_simd.h"
#include "backends/cpu/attention/latent_simd.h"
#include "backends/cpu/attention/mass_simd.h"
#include "backends/cpu/simd/simd.h"

namespace lamina::cpu {
namespace {

using V = Vectors<kNativeBytes / 4>;

// Decoding by the storage of the cache.
template <class T, bool kPairs>
struct DecodeCached {
  static std::int64_t workspace_bytes(const AttentionSpec& spec) {
    switch (spec.cached) {
      case CachedRows::int8:
        return DecodeMemory<V, T, kPairs, Int8>::workspace_bytes(spec);
      case CachedRows::e4m3:
        return DecodeMemory<V, T, kPairs, E4m3>::workspace_bytes(spec);
      case CachedRows::plain:
        break;
    }
    return DecodeMemory<V, T, kPairs, T>::workspace_bytes(spec);
  }

  static void run(const AttentionSpec& spec, const AttentionForwardArgs& args,
                  const AttentionCache& cache, std::byte* workspace) {
    switch (spec.cached) {
      case CachedRows::int8:
        return Decode<V, T, kPairs, Int8>::run(spec, args, cache, workspace);
      case CachedRows::e4m3:
        return Decode<V, T, kPairs, E4m3>::run(spec, args, cache, workspace);
      case CachedRows::plain:
        break;
    }
    Decode<V, T, kPairs>::run(spec, args, cache, workspace);
  }
};

template <class T, bool kPairs>
constexpr AttentionFunctions kFunctions = {
    .forward_workspace_bytes = ForwardMemory<V, T, kPairs>::workspace_bytes,
    .forward = Forward<V, T, kPairs>::run,
    .decodes = Decode<V, T, kPairs>::takes,
    .decode_workspace_bytes = DecodeCached<T, kPairs>::workspace_bytes,
    .decode = DecodeCached<T, kPairs>::run,
    .backward_workspace_bytes = BackwardMemory<V, T, kPairs>::workspace_bytes,
    .backward = Backward<V, T, kPairs>::run,
    .latent_workspace_bytes = Latent<V, T, kPairs>::workspace_bytes,
    .latent = Latent<V, T, kPairs>::run,
    .index_workspace_bytes = IndexScores<V, T, kPairs>::workspace_bytes,
    .index = IndexScores<V, T, kPairs>::run,
    .index_grad_workspace_bytes = IndexScoresGrad<V, T>::workspace_bytes,
    .index_grad = IndexScoresGrad<V, T>::run,
    .mass_workspace_bytes = AttentionMass<V, T, kPairs>::workspace_bytes,
    .mass = AttentionMass<V, T, kPairs>::run,
};

constexpr AttentionTable kTable = {
    .f32 = kFunctions<float, false>,
    .bf16 = kFunctions<std::uint16_t, false>,
#if defined(__AVX512BF16__)
    .bf16_pairs = kFunctions<std::uint16_t, true>,
#endif
};

}  // namespace

constinit const AttentionTable AttentionTable::LAMINA_ISA = kTable;

}  // namespace lamina::cpu
