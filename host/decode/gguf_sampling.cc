#include "decode/gguf_sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "decode/generation_keys.h"

namespace lamina::decode {
namespace {

constexpr std::string_view kPrefix = "general.sampling.";
constexpr std::string_view kSuppressed = "tokenizer.ggml.suppress_tokens";

// Keys after the prefix and the names of their options. Values are clamped: llama.cpp turns a
// sampler off outside these limits.
constexpr double kNoLimit = std::numeric_limits<double>::infinity();
struct SamplingName {
  std::string_view gguf, option;
  double lowest, highest = kNoLimit;
};
constexpr SamplingName kPenalty = {"penalty_repeat", "repeat-penalty", -kNoLimit},
                       kWindow = {"penalty_last_n", "repeat-last-n", -kNoLimit};
constexpr SamplingName kNames[] = {
    {"temp", "temp", 0},
    {"top_k", "top-k", 0},
    {"top_p", "top-p", 0, 1},
    {"min_p", "min-p", 0},
    kPenalty,
    kWindow,
};
// The window of a penalty in a file without one, as in llama.cpp.
constexpr double kUsualWindow = 64;

class Reader {
 public:
  Reader(const io::GgufFile& file, GenerateOptions& options) : file_(file), options_(options) {}

  GgufSampling run() {
    for (const SamplingName& row : kNames)
      if (const auto value = number(row.gguf))
        assign(row, std::clamp(*value, row.lowest, row.highest));
    if (number(kPenalty.gguf) && options_.sampler.repetition_penalty != 1 && !number(kWindow.gguf))
      assign(kWindow, kUsualWindow);
    read_suppressed();
    find_missing();
    return std::move(out_);
  }

 private:
  static std::string whole(std::string_view key) { return std::string(kPrefix).append(key); }
  // Converts a float32 to the double with the same decimal digits: 0.95, not 0.949999988.
  std::optional<double> number(std::string_view key) const {
    const auto value = file_.number(whole(key));
    if (!value || file_.find(whole(key))->type != io::GgufValue::Type::f32) return value;
    return std::stod(fmt::format("{}", static_cast<float>(*value)));
  }

  void assign(const SamplingName& row, double value) {
    const auto key = std::ranges::find(generation_keys(), row.option, &GenerationKey::name);
    LAMINA_ASSERT(key != generation_keys().end());
    if (value < key->min.value_or(value) || value > key->max.value_or(value))
      file_.fail(whole(row.gguf),
                 fmt::format("is {}; it must be {}{}", value,
                             key->min ? fmt::format("at least {}", *key->min) : "",
                             key->max ? fmt::format(" and at most {}", *key->max) : ""));
    const Place place = key->place(options_);
    if (auto* const* real = std::get_if<double*>(&place)) {
      if (!fits_float32(value))
        file_.fail(whole(row.gguf),
                   fmt::format("is {}; it must be within the range of float32", value));
      **real = value;
    } else {
      if (value != std::floor(value) || value > std::numeric_limits<std::int32_t>::max())
        file_.fail(whole(row.gguf), fmt::format("is {}; expected a whole number", value));
      *std::get<std::int64_t*>(place) = static_cast<std::int64_t>(value);
    }
    out_.config.used.emplace_back(name_in_files(*key));
  }

  void read_suppressed() {
    if (!file_.find(kSuppressed)) return;
    options_.sampler.suppressed.clear();
    for (const std::int64_t id : file_.integers(kSuppressed)) {
      if (id < 0 || id > std::numeric_limits<std::int32_t>::max())
        file_.fail(kSuppressed, fmt::format("has {}, which is not a token id", id));
      options_.sampler.suppressed.push_back(static_cast<std::int32_t>(id));
    }
    out_.config.used.emplace_back("suppress_tokens");
  }

  void miss(std::string_view key, const std::string& value) {
    out_.missing.push_back(fmt::format("{} = {}", whole(key), value));
  }

  // Collects active samplers that lamina lacks.
  void find_missing() {
    if (const auto order = file_.text(whole("sequence")); order && !order->empty())
      miss("sequence", fmt::format("'{}'", *order));
    if (const auto kind = number("mirostat"); kind && *kind != 0)
      miss("mirostat", fmt::format("{}", *kind));
    if (const auto chance = number("xtc_probability");
        chance && *chance > 0 && number("xtc_threshold").value_or(0) <= 0.5)
      miss("xtc_probability", fmt::format("{}", *chance));
  }

  const io::GgufFile& file_;
  GenerateOptions& options_;
  GgufSampling out_;
};

}  // namespace

GgufSampling apply_gguf_sampling(const io::GgufFile& file, GenerateOptions& options) {
  return Reader(file, options).run();
}

}  // namespace lamina::decode
