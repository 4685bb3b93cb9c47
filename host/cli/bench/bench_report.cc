#include "cli/bench/bench_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/bench/bench_text.h"
#include "core/json_writer.h"

namespace lamina::cli {

std::string bench_text(const bench::BenchResult& r, const Device& device) {
  const std::string text =
      r.is_limited_by_bytes()
          ? fmt::format("{} (at best {}), {:.4g} MB per token",
                        bandwidth_text(r.median().bandwidth), bandwidth_text(r.best_bandwidth),
                        r.bytes_per_token * 1e-6)
          : fmt::format("{}, {:.4g} GFLOP per token", flops_text(r.median().peak),
                        r.flops_per_token * 1e-9);
  auto [min, max] = std::ranges::minmax(r.repeats, {}, [&](auto& one) { return r.ratio(one); });
  return fmt::format(
      "machine   {}\nspeed     {:.5g} tok/s, {} tokens in {:.3f} s\nlimit     {:.5g} tok/s: {}\n"
      "ratio     {:.3f}, median of {} from {:.3f} to {:.3f}\n",
      machine_text(device), r.tokens_per_second(), r.tokens, r.median().seconds,
      r.limit_tokens_per_second(), text, r.ratio(), r.repeats.size(), r.ratio(min), r.ratio(max));
}

std::string bench_json(const Arguments& a, std::string_view workload, const bench::BenchResult& r,
                       const Device& device) {
  JsonWriter json(2);
  json.begin_object().key("workload").value(workload).key("model").value(a.text("model"));
  if (!a.texts("set").empty()) {
    json.key("set").begin_array();
    for (const std::string& set : a.texts("set")) json.value(set);
    json.end_array();
  }
  const std::int64_t batch = a.integer("batch");
  json.key("dtype").value(a.text("dtype")).key("batch").value(batch);
  if (a.has("quantize")) json.key("quantize").value(a.text("quantize"));
  json.key("tokens").value(static_cast<std::int64_t>(r.tokens) / batch);
  json.key("threads").value(device.num_threads());
  json.key("isa").value(device.isa());
  json.key("tokens_per_second").value(r.tokens_per_second());
  json.key("limit_tokens_per_second").value(r.limit_tokens_per_second());
  json.key("ratio").value(r.ratio());
  json.key("limited_by").value(r.is_limited_by_bytes() ? "bytes" : "operations");
  json.key("read_bandwidth_bytes_per_second").value(r.median().bandwidth);
  json.key("best_read_bandwidth_bytes_per_second").value(r.best_bandwidth);
  json.key("peak_flops_per_second").value(r.median().peak);
  json.key("bytes_per_token").value(r.bytes_per_token);
  json.key("flops_per_token").value(r.flops_per_token);
  json.key("seconds").value(r.median().seconds).key("seconds_of_repeats").begin_array();
  for (const bench::BenchResult::Repeat& one : r.repeats) json.value(one.seconds);
  json.end_array().key("ratio_of_repeats").begin_array();
  for (const bench::BenchResult::Repeat& one : r.repeats) json.value(r.ratio(one));
  return json.end_array().end_object().text() + "\n";
}

}  // namespace lamina::cli
