// lamina bench machine | compile: limits of the machine, and the time that compiling takes.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/compile_time.h"
#include "cli/bench/bench_text.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/terminal.h"
#include "cli/shell/weight_choice.h"
#include "core/json_writer.h"
#include "decoder/call_limits.h"
#include "formats/block_formats.h"
#include "model/open.h"

namespace lamina::cli {
namespace {

int run_machine(const Arguments& a, const Device& device) {
  device.use_threads(a.globals.threads);
  const bool multiplies_integers = device.name() == "cpu";  // GPUs widen them
  // Published formats of integers of 8 and of 4 bits.
  const formats::BlockFormat *q8 = formats::find_block_format(8),
                             *q4 = formats::find_block_format(2);
  double read = 0, copy = 0, f32 = 0, bf16 = 0, int8 = 0, int4 = 0;
  for (int i = 0; i < 2; ++i) {
    read = std::max(read, device.read_bandwidth());
    copy = std::max(copy, device.copy_bandwidth());
    f32 = std::max(f32, device.peak_flops(DType::f32));
    bf16 = std::max(bf16, device.peak_flops(DType::bf16));
    if (!multiplies_integers) continue;
    int8 = std::max(int8, device.peak_flops(DType::bf16, q8));
    int4 = std::max(int4, device.peak_flops(DType::bf16, q4));
  }
  if (!a.flag("json")) {
    std::string text = fmt::format("machine         {}\nread bandwidth  {}\n", machine_text(device),
                                   bandwidth_text(read));
    if (copy > 0) text += fmt::format("copies          {} each way\n", bandwidth_text(copy));
    text +=
        fmt::format("peak float32    {}\npeak bfloat16   {}\n", flops_text(f32), flops_text(bf16));
    if (multiplies_integers)
      text += fmt::format("peak int8       {:.1f} GOP/s\npeak int4       {:.1f} GOP/s\n",
                          int8 * 1e-9, int4 * 1e-9);
    print(text);
    return 0;
  }
  JsonWriter json(2);
  json.begin_object().key("workload").value("machine");
  json.key("threads").value(device.num_threads()).key("isa").value(device.isa());
  json.key("read_bandwidth_bytes_per_second").value(read);
  if (copy > 0) json.key("copy_bytes_per_second").value(copy);
  json.key("peak_flops_per_second").begin_object();
  json.key("float32").value(f32).key("bfloat16").value(bf16);
  if (multiplies_integers) json.key("int8").value(int8).key("int4").value(int4);
  print(json.end_object().end_object().text() + "\n");
  return 0;
}

constexpr double kMaxCompileSeconds = 0.1;  // per phase

int run_compile(const Arguments& a, const Device& device) {
  device.use_threads(a.globals.threads);
  const bench::CompileOptions options{.dtype = *parse_dtype(a.text("dtype")),
                                      .tokens = a.integer("tokens"),
                                      .repeats = static_cast<int>(a.integer("repeats"))};
  for (const std::string& path : a.positionals)
    require_description(path, "a model file or a model directory");
  JsonWriter json(2);
  json.begin_array();
  std::string head =
      fmt::format("milliseconds; ratio: {:.0f} over the longest\n{:>8} {:>8} {:>8} {:>7}\n",
                  1e3 * kMaxCompileSeconds, "train", "prefill", "decode", "ratio");
  for (const std::string& path : a.positionals) {
    bench::CompileTimes t = bench::bench_compile(
        [&] {
          return std::move(model::open(path, plugin_catalog(a.globals),
                                       {.compress_tokens = decoder::uncompressed_tokens},
                                       model_overrides(a))
                               .model);
        },
        options, device.backend());
    double ratio = kMaxCompileSeconds / std::max({t.train, t.prefill, t.decode});
    if (!a.flag("json")) {
      print(fmt::format("{}{:8.1f} {:8.1f} {:8.1f} {:7.1f}  {}\n", std::exchange(head, ""),
                        1e3 * t.train, 1e3 * t.prefill, 1e3 * t.decode, ratio, path));
      continue;
    }
    json.begin_object().key("model").value(path).key("train_seconds").value(t.train);
    json.key("prefill_seconds").value(t.prefill).key("decode_seconds").value(t.decode);
    json.key("ratio").value(ratio).end_object();
  }
  json.end_array();
  if (a.flag("json")) print(json.text() + "\n");
  return 0;
}

}  // namespace

Command bench_machine_command() {
  return {.name = "bench machine",
          .summary = "measures the machine's limits: read bandwidth and peak products",
          .details = "Run nothing else at the same time.",
          .options = {device_option(), json_option()},
          .examples = {"lamina bench machine"},
          .run = run_machine};
}

Command bench_compile_command() {
  return {.name = "bench compile",
          .summary = "measures how long a model takes to be traced and compiled",
          .details =
              "Prints for each model how long tracing, the passes, the choice of kernels and "
              "the memory plan take for a training step, for reading a prompt and for "
              "writing a token. The limit is 100 ms each. Needs no weights.",
          .options = {dtype_option(),
                      integer_option("tokens", 'n', 512, "Tokens per row or prompt.", 1,
                                     decoder::kMaxTokens),
                      integer_option("repeats", 0, 3, "Repeats; the median is reported.", 1, 1000),
                      device_option(), json_option()},
          .positionals = {{.name = "MODEL",
                           .doc = "Model files or directories with a model.",
                           .repeatable = true}},
          .examples = {"lamina bench compile configs/models/gpt2-124m.toml",
                       "lamina bench compile configs/models/*.toml --json"},
          .run = run_compile};
}

}  // namespace lamina::cli
