// The linear scan on sixteen channels at a time.
#include "backends/cpu/scan/linear_scan.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

bool begins_document(const LinearScan& p, std::int64_t b, std::int64_t t) {
  if (t == 0 || p.segments == nullptr) return t == 0;
  const std::int32_t* row = p.segments + b * p.tokens;
  return row[t] != row[t - 1];
}

std::int64_t valid_tokens(const LinearScanForward& p, std::int64_t b) {
  if (p.count == nullptr) return p.tokens;
  return p.count[b] < p.tokens ? (p.count[b] > 0 ? p.count[b] : 0) : p.tokens;
}

template <typename A, typename B>
void forward(const LinearScanForward& p, const LinearScanTask& task) {
  const std::int64_t channels = task.c1 - task.c0, end = valid_tokens(p, task.b);
  float h[kScanChannels];
  float* state = p.state == nullptr ? nullptr : p.state + task.b * p.channels + task.c0;
  const bool goes_on = state != nullptr && p.start[task.b] != 0;
  const auto clear = [&] {
    for (std::int64_t i = 0; i < channels; i += kLanes) store(h + i, splat(0.0f));
  };
  if (!goes_on) clear();
  for_lanes(channels, [&](std::int64_t i, int count) {
    if (goes_on) store(h + i, load_some(state + i, count));
  });
  const std::int64_t row = task.b * p.tokens * p.channels + task.c0;
  const A* a = static_cast<const A*>(p.a.data) + row;
  const B* b = static_cast<const B*>(p.b.data) + row;
  B* y = static_cast<B*>(p.y.data) + row;
  for (std::int64_t t = 0; t < end; ++t, a += p.channels, b += p.channels, y += p.channels) {
    if (t > 0 && begins_document(p, task.b, t)) clear();
    for_lanes(channels, [&](std::int64_t i, int count) {
      const Float now = fma(load_some(a + i, count), load(h + i), load_some(b + i, count));
      store(h + i, now);
      store_some(y + i, now, count);
    });
  }
  for (std::int64_t t = end; t < p.tokens; ++t, y += p.channels)
    for_lanes(channels, [&](std::int64_t i, int count) { store_some(y + i, splat(0.0f), count); });
  if (state == nullptr || end == 0) return;
  for_lanes(channels,
            [&](std::int64_t i, int count) { store_some(state + i, load(h + i), count); });
}

template <typename A, typename B, typename Y>
void backward(const LinearScanBackward& p, const LinearScanTask& task, float* states) {
  constexpr std::int64_t kStride = kScanGradChannels;
  const std::int64_t channels = task.c1 - task.c0;
  const std::int64_t row = task.b * p.tokens * p.channels + task.c0;
  const A* a = static_cast<const A*>(p.a.data) + row;
  const B* b = static_cast<const B*>(p.b.data) + row;
  const Y* dy = static_cast<const Y*>(p.dy.data) + row;
  A* da = static_cast<A*>(p.da.data) + row;
  B* db = static_cast<B*>(p.db.data) + row;
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    const bool fresh = begins_document(p, task.b, t);
    for_lanes(channels, [&](std::int64_t i, int count) {
      const Float in = load_some(b + t * p.channels + i, count);
      float* now = states + t * kStride + i;
      store(now,
            fresh ? in : fma(load_some(a + t * p.channels + i, count), load(now - kStride), in));
    });
  }
  float flow[kScanGradChannels];  // gradient of the state after token t, from later tokens
  for (std::int64_t i = 0; i < channels; i += kLanes) store(flow + i, splat(0.0f));
  for (std::int64_t t = p.tokens; t-- > 0;) {
    const bool fresh = begins_document(p, task.b, t);
    const std::int64_t at = t * p.channels;
    for_lanes(channels, [&](std::int64_t i, int count) {
      const Float dh = load(flow + i) + load_some(dy + at + i, count);
      const Float before = fresh ? splat(0.0f) : load(states + (t - 1) * kStride + i);
      store_some(da + at + i, dh * before, count);
      store_some(db + at + i, dh, count);
      store(flow + i, fresh ? splat(0.0f) : dh * load_some(a + at + i, count));
    });
  }
}

template <typename Call>
void with_type(DType dtype, const Call& call) {
  dtype == DType::f32 ? call(float{}) : call(bfloat16{});
}

constexpr LinearScanFunctions kFunctions = {
    .forward =
        [](const LinearScanForward& p, const LinearScanTask& task) {
          with_type(p.a.dtype, [&](auto a) {
            with_type(p.b.dtype, [&](auto b) { forward<decltype(a), decltype(b)>(p, task); });
          });
        },
    .backward =
        [](const LinearScanBackward& p, const LinearScanTask& task, float* scratch) {
          with_type(p.a.dtype, [&](auto a) {
            with_type(p.b.dtype, [&](auto b) {
              with_type(p.dy.dtype, [&](auto dy) {
                backward<decltype(a), decltype(b), decltype(dy)>(p, task, scratch);
              });
            });
          });
        },
};

}  // namespace

constinit const LinearScanFunctions LinearScanFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
