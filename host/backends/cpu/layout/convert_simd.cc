// Conversions for one instruction set.
#include "backends/cpu/layout/convert_simd.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

// f64 joins the other types by way of f32.
LAMINA_SIMD Float load(const double* p) { return convert<Float>(load_raw<Double>(p)); }
LAMINA_SIMD void store(double* p, Float x) { store_raw(p, convert<Double>(x)); }

template <typename From, typename To>
void run(void* y, const void* x, std::int64_t n) {
  To* to = static_cast<To*>(y);
  const From* from = static_cast<const From*>(x);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, load(from + i));
  if (i == n) return;
  From rest[kLanes] = {};
  To result[kLanes];
  for (std::int64_t k = i; k < n; ++k) rest[k - i] = from[k];
  store(result, load(rest));
  for (std::int64_t k = i; k < n; ++k) to[k] = result[k - i];
}

constexpr ConvertFunctions kFunctions = {{
    {run<float, float>, run<float, bfloat16>, run<float, float16>, run<float, double>},
    {run<bfloat16, float>, run<bfloat16, bfloat16>, run<bfloat16, float16>, run<bfloat16, double>},
    {run<float16, float>, run<float16, bfloat16>, run<float16, float16>, run<float16, double>},
    {run<double, float>, run<double, bfloat16>, run<double, float16>, run<double, double>},
}};

}  // namespace

constinit const ConvertFunctions ConvertFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
