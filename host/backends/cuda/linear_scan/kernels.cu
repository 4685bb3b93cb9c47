// y_t = a_t y_(t-1) + b_t in every channel. Bound by memory: each number is read and written once
// (backward, a and b are read twice). A block computes 32 channels of a row in tiles of 8 tokens
// per warp. Each thread loads its tokens at once, so that many loads are under way, and reduces
// them to one part; with the parts of the warps before it, it computes the state before its tokens,
// and then its results token by token. The sums have the same order in every run and for every
// batch.
#include "backends/cuda/gpu/sums.h"
#include "backends/cuda/linear_scan/parts.h"

namespace lamina::cuda {
namespace {

// Returns the state of a channel before the first token.
LAMINA_GPU_FUNCTION float first_state(const LinearScanParams& p, std::int64_t b, std::int64_t c) {
  if (p.state.value == 0 || c >= p.channels) return 0;
  const bool started = gpu::Global<const std::int32_t>(p.start)[b] != 0;
  return started ? gpu::Global<const float>(p.state)[b * p.channels + c] : 0.0f;
}

LAMINA_GPU_FUNCTION std::int64_t valid_tokens(const LinearScanParams& p, std::int64_t b) {
  if (p.count.value == 0) return p.tokens;
  const std::int64_t count = gpu::Global<const std::int32_t>(p.count)[b];
  return gpu::max(std::int64_t{0}, gpu::min(count, p.tokens));
}

LAMINA_GPU_FUNCTION void forward(const LinearScanParams& p) {
  LAMINA_GPU_SHARED(float, products, kLinearMostWarps* gpu::kWarpSize);
  LAMINA_GPU_SHARED(float, sums, kLinearMostWarps* gpu::kWarpSize);
  LAMINA_GPU_SHARED(std::int32_t, resets, kLinearMostWarps);
  LAMINA_GPU_SHARED(float, last_state, gpu::kWarpSize);
  LinearParts parts{products, sums, resets};
  const std::int64_t groups = (p.channels + kLinearChannels - 1) / kLinearChannels;
  const int warp = gpu::warp_index(), tile = gpu::num_warps() * kLinearTokens;
  LinearPlace place{};
  place.b = gpu::block_index() / groups;
  place.c = gpu::block_index() % groups * kLinearChannels + gpu::lane();
  place.row = place.b * p.tokens;
  const bool active = place.c < p.channels;
  const gpu::NumberReader a(p.a), b(p.b);
  const gpu::NumberWriter y(p.y);
  const std::int64_t end = valid_tokens(p, place.b), num_tiles = (p.tokens + tile - 1) / tile;
  float state = first_state(p, place.b, place.c);
  for (std::int64_t t0 = 0; t0 < end; t0 += tile) {
    if (p.saved.value != 0 && warp == 0 && active)
      gpu::Global<float>(p.saved)[(place.b * num_tiles + t0 / tile) * p.channels + place.c] = state;
    place.first = t0 + warp * kLinearTokens;
    place.count = static_cast<int>(
        gpu::max(std::int64_t{0}, gpu::min(std::int64_t{kLinearTokens}, end - place.first)));
    float factor[kLinearTokens], term[kLinearTokens];
    const int count = active ? place.count : 0;
    a.strided(place.at(p.channels), p.channels, count, 1, factor);
    b.strided(place.at(p.channels), p.channels, count, 0, term);
    const std::uint32_t fresh = documents(p.segments, place);
    LinearPart part;
    part.resets = fresh != 0;
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kLinearTokens; ++i) {
      part.sum = gpu::fma(factor[i], begins(fresh, i) ? 0.0f : part.sum, term[i]);
      part.product *= factor[i];
    }
    parts.set(part);
    gpu::sync();
    parts.begin_reading();
    float h = state;
    for (int w = 0; w < warp; ++w) h = parts.after(w, h);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kLinearTokens; ++i) {
      h = gpu::fma(factor[i], begins(fresh, i) ? 0.0f : h, term[i]);
      if (i < count && y) y.set(place.at(p.channels) + i * p.channels, h);
    }
    if (warp == gpu::num_warps() - 1) last_state[gpu::lane()] = h;
    gpu::sync();
    state = last_state[gpu::lane()];
  }
  if (!active) return;
  if (y)
    for (std::int64_t t = end + warp; t < p.tokens; t += gpu::num_warps())
      y.set((place.row + t) * p.channels + place.c, 0);
  if (p.new_state.value == 0 || warp != 0) return;
  const std::int64_t at = place.b * p.channels + place.c;
  gpu::Global<float>(p.new_state)[at] = end > 0 ? state : gpu::Global<const float>(p.state)[at];
}

// The gradient of the state after a token, dh_t = dy_t + a_(t+1) dh_(t+1), is a linear scan from
// the last token to the first.
LAMINA_GPU_FUNCTION void backward(const LinearScanGradParams& p) {
  LAMINA_GPU_SHARED(float, products, kLinearMostWarps* gpu::kWarpSize);
  LAMINA_GPU_SHARED(float, sums, kLinearMostWarps* gpu::kWarpSize);
  LAMINA_GPU_SHARED(float, flows, kLinearMostWarps* gpu::kWarpSize);
  LAMINA_GPU_SHARED(std::int32_t, resets, kLinearMostWarps);
  LAMINA_GPU_SHARED(float, last_flow, gpu::kWarpSize);
  LinearParts states{products, sums, resets}, gradients{products, flows, resets};
  const std::int64_t groups = (p.channels + kLinearChannels - 1) / kLinearChannels;
  const int warp = gpu::warp_index(), tile = gpu::num_warps() * kLinearTokens;
  LinearPlace place{};
  place.b = gpu::block_index() / groups;
  place.c = gpu::block_index() % groups * kLinearChannels + gpu::lane();
  place.row = place.b * p.tokens;
  const bool active = place.c < p.channels;
  const gpu::NumberReader a(p.a), b(p.b), dy(p.dy);
  const gpu::NumberWriter da(p.da), db(p.db);
  const std::int64_t num_tiles = (p.tokens + tile - 1) / tile;
  float flow = 0;  // the gradient of the state after the tile, from later tokens
  for (std::int64_t n = num_tiles - 1; n >= 0; --n) {
    place.first = n * tile + warp * kLinearTokens;
    place.count = static_cast<int>(
        gpu::max(std::int64_t{0}, gpu::min(std::int64_t{kLinearTokens}, p.tokens - place.first)));
    const int count = active ? place.count : 0;
    const std::int64_t at = place.at(p.channels);
    float factor[kLinearTokens], term[kLinearTokens], dh[kLinearTokens], before[kLinearTokens];
    a.strided(at, p.channels, count, 1, factor);
    b.strided(at, p.channels, count, 0, term);
    dy.strided(at, p.channels, count, 0, dh);
    const std::uint32_t fresh = documents(p.segments, place);
    LinearPart state, gradient;
    state.resets = gradient.resets = fresh != 0;
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kLinearTokens; ++i) {
      state.sum = gpu::fma(factor[i], begins(fresh, i) ? 0.0f : state.sum, term[i]);
      state.product *= factor[i];
    }
    LAMINA_GPU_UNROLL
    for (int i = kLinearTokens - 1; i >= 0; --i)
      gradient.sum = begins(fresh, i) ? 0.0f : factor[i] * (gradient.sum + dh[i]);
    gradient.product = state.product;
    states.set(state);
    gradients.set(gradient);  // writes the same products and resets again
    gpu::sync();
    states.begin_reading();
    gradients.resetting = states.resetting;
    float h =
        active ? gpu::Global<const float>(p.saved)[(place.b * num_tiles + n) * p.channels + place.c]
               : 0.0f;
    for (int w = 0; w < warp; ++w) h = states.after(w, h);
    float later = flow;
    for (int w = gpu::num_warps() - 1; w > warp; --w) later = gradients.after(w, later);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kLinearTokens; ++i) {
      before[i] = begins(fresh, i) ? 0.0f : h;
      h = gpu::fma(factor[i], before[i], term[i]);
    }
    LAMINA_GPU_UNROLL
    for (int i = kLinearTokens - 1; i >= 0; --i) {
      const float now = dh[i] + later;
      if (i < count) {
        da.set(at + i * p.channels, now * before[i]);
        db.set(at + i * p.channels, now);
      }
      later = begins(fresh, i) ? 0.0f : now * factor[i];
    }
    if (warp == 0) last_flow[gpu::lane()] = later;
    gpu::sync();
    flow = last_flow[gpu::lane()];
  }
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(linear_scan_forward, LinearScanParams, 1024, 1) { forward(p); }
LAMINA_GPU_KERNEL_BOUNDS(linear_scan_backward, LinearScanGradParams, 1024, 1) { backward(p); }

}  // namespace lamina::cuda
