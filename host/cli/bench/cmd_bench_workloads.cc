// lamina bench decode | prefill | train: speed of a workload as a share of the machine's limit.
#include <algorithm>

#include "bench/workloads.h"
#include "cli/bench/bench_report.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/terminal.h"
#include "cli/shell/weight_choice.h"
#include "core/error.h"
#include "core/log.h"
#include "decoder/call_limits.h"
#include "model/open.h"

namespace lamina::cli {
namespace {

constexpr std::string_view kLazyEmbeddings = "lazy-embeddings";  // an option of bench train

using Workload = bench::BenchResult (*)(const decoder::Model&, const bench::BenchOptions&,
                                        const Backend&, const Device&);

int run_workload(const Arguments& a, const Device& device, std::string_view name,
                 Workload workload) {
  device.use_threads(a.globals.threads);
  require_description(a.text("model"), "a model file or a model directory");
  model::OpenedModel opened =
      model::open(a.text("model"), plugin_catalog(a.globals),
                  {.compress_tokens = decoder::uncompressed_tokens}, model_overrides(a));
  bench::BenchOptions options{.dtype = *parse_dtype(a.text("dtype")),
                              .batch = a.integer("batch"),
                              .tokens = a.integer("tokens"),
                              .repeats = static_cast<int>(a.integer("repeats"))};
  note_plain_states(a, *opened.model, options.dtype);
  model::set_storage(opened, weight_choice(a), options.dtype);
  if (a.has("context")) options.context = a.integer("context");
  const std::int64_t before = workload == bench::bench_decode ? options.context : 0;
  const std::int64_t room = opened.model->max_length().value_or(decoder::kMaxTokens) - before;
  if (!a.has("tokens") && room > 0) options.tokens = std::min(options.tokens, room);
  if (workload == bench::bench_train) {
    options.lazy_embeddings = a.flag(std::string(kLazyEmbeddings));
    options.offload = a.flag("offload");
    options.moments = a.text("moments");
    options.remat = a.text("remat");
    if (options.lazy_embeddings && options.moments != bench::BenchOptions{}.moments)
      throw UserError(ExitCode::usage, {fmt::format("--{}", kLazyEmbeddings),
                                        fmt::format("requires --moments {}, got {}",
                                                    bench::BenchOptions{}.moments, options.moments),
                                        {"remove one of them, as in a run file"}});
  } else if (!opened.directory.empty()) {
    options.files = opened.weight_files();
  }
  if (a.flag("profile")) options.profile = [](const std::string& table) { log::info("{}", table); };
  bench::BenchResult result = workload(*opened.model, options, device.backend(), device);
  print(a.flag("json") ? bench_json(a, name, result, device) : bench_text(result, device));
  return 0;
}

Command workload_command(std::string name, std::string summary, std::string details,
                         std::int64_t tokens, std::string example, Workload workload) {
  Option model{
      .key = {.name = "model",
              .type = Type::string,
              .doc = "A model file, or a directory with weights; without weights, random ones "
                     "are used.",
              .path = true},
      .short_name = 'm',
      .value = "FILE|DIR"};
  model.key.required = true;
  return {.name = "bench " + name,
          .summary = std::move(summary),
          .details = std::move(details),
          .options = {model,
                      dtype_option(),
                      integer_option("batch", 'b', 1, "Sequences computed together.", 1,
                                     decoder::kMaxTokens),
                      integer_option("tokens", 'n', tokens,
                                     "Tokens per sequence; the default is limited to the model's "
                                     "positions.",
                                     1, decoder::kMaxTokens),
                      integer_option("repeats", 0, 3, "Repeats; the median is reported.", 1, 1000),
                      {.key = {.name = "profile",
                               .type = Type::boolean,
                               .doc = "Print the time of every kernel to stderr."}},
                      set_model_option(),
                      device_option(),
                      json_option()},
          .examples = {std::move(example)},
          .run = [name, workload](const Arguments& a, const Device& device) {
            return run_workload(a, device, name, workload);
          }};
}

// Adds the options that quantise the weights.
Command quantising(Command command) {
  command.options.push_back(quantize_option());
  command.options.push_back(quantize_rule_option());
  return command;
}

}  // namespace

Command bench_decode_command() {
  Command out = quantising(workload_command(
      "decode", "measures decoding as a share of the machine's read bandwidth",
      "The limit is the read bandwidth, measured between the tokens, over the bytes that a "
      "token must read: every weight once for the whole batch, one row of each lookup-only "
      "table, and the decode state.",
      48, "lamina bench decode --model configs/models/bench-0.6b.toml --json",
      bench::bench_decode));
  out.options.push_back(integer_option("context", 0, bench::BenchOptions{}.context,
                                       "Tokens in the decode state before the measured ones.", 1,
                                       decoder::kMaxTokens));
  out.options.push_back(kv_dtype_option());
  return out;
}

Command bench_prefill_command() {
  return quantising(workload_command(
      "prefill", "measures reading a prompt as a share of the machine's peak",
      "The limit is the peak of the type, measured in the same run, over the operations of the "
      "matrix products (2 M N K each) and of attention (causal: half).",
      512, "lamina bench prefill --model configs/models/bench-0.6b.toml --tokens 512",
      bench::bench_prefill));
}

Command bench_train_command() {
  Command out = workload_command(
      "train", "measures an optimizer step as a share of the machine's peak",
      "The limit is the peak of the type, measured in the same run, over three times the "
      "operations of a forward pass: products (2 M N K each, including the head) and attention "
      "(causal: half), plus twice that for the backward pass. Recomputation does not count. The "
      "step is timed from tokens to updated weights, after one warm-up step.",
      256, "lamina bench train --model configs/models/gpt2-124m.toml --tokens 256",
      bench::bench_train);
  out.options.push_back({.key = {.name = std::string(kLazyEmbeddings),
                                 .type = Type::boolean,
                                 .doc = "Update only the table rows that were looked up, as "
                                        "optimizer.lazy_embeddings does."}});
  out.options.push_back(flag_option("offload",
                                    "Keep the state of the optimizer in host memory, as "
                                    "optimizer.offload does."));
  out.options.push_back(choice_option("moments", "TYPE", {"float32", "bfloat16", "8bit"},
                                      bench::BenchOptions{}.moments,
                                      "Storage of moments, as optimizer.moments chooses it."));
  Option remat = text_option("remat", 0, "POLICY",
                             "The values that are kept for the backward pass, as train.remat "
                             "chooses them; the named policies only.");
  remat.key.preset = Value("none");
  out.options.push_back(std::move(remat));
  return out;
}

}  // namespace lamina::cli
