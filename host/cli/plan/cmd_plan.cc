// lamina plan: the cost of a model from its description: parameters, memory, arithmetic.
#include <fmt/format.h>

#include <algorithm>

#include "cli/generate/generation_options.h"
#include "cli/plan/report.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/weight_choice.h"
#include "decoder/call_limits.h"
#include "inspect/plan/train_plan.h"
#include "model/open.h"
#include "model/teacher.h"
#include "model/training.h"

namespace lamina::cli {
namespace {

constexpr std::int64_t kContext = 4096;

struct Subject {
  model::OpenedModel opened;
  inspect::PlanOptions options;
};

// The model, and the settings of a run file for computing with it.
Subject find_planned(const Arguments& a) {
  const std::string& path = a.positionals[0];
  if (!config::is_run_file(path)) {
    require_description(path);
    Subject out{model::open(path, plugin_catalog(a.globals),
                            {.compress_tokens = decoder::uncompressed_tokens}, model_overrides(a)),
                {}};
    out.options.tokens = within_positions(*out.opened.model, kContext);
    return out;
  }
  refuse_quantising(a, "the run file " + path);
  config::RunConfig c = config::load_run(path, overrides_of(a));
  auto model = model::open_trained(c, plugin_catalog(a.globals));
  const inspect::PlanOptions options = inspect::plan_options(
      c, *model, model::describe_teacher(c, plugin_catalog(a.globals), *model));
  return {{.directory = {}, .model = std::move(model)}, options};
}

int run_plan(const Arguments& a, const Device& device) {
  device.use_threads(a.globals.threads);
  auto [opened, options] = find_planned(a);
  const auto& model = opened.model;
  if (a.has("batch")) options.batch = a.integer("batch");
  if (a.has("context")) options.tokens = a.integer("context");
  if (a.has("dtype")) options.dtype = *parse_dtype(a.text("dtype"));
  model->check_length(options.tokens, a.has("context") ? "--context" : "data.sequence_length");
  if (a.has("context")) warn_of_positions(*model, options.tokens);
  model::set_storage(opened, weight_choice(a), options.dtype);
  inspect::ModelPlan plan = inspect::plan_model(*model, options, device.backend());
  const std::string& name = a.positionals[0];
  MemoryNeed need;
  if (has_own_memory(device) && plan.work.decode)
    need = decode_need(*model,
                       {.batch = options.batch, .capacity = options.tokens, .dtype = options.dtype},
                       device.backend());
  if (a.flag("json")) {
    print(plan_json(name, plan, need, device));
    return 0;
  }
  print(plan_text(name, plan, device));
  if (!need.empty())
    print(fmt::format("\nmemory of the device for decoding\n  {}{}\n", need_text(need, device),
                      fits(need, device) ? "" : ": too little"));
  return 0;
}

}  // namespace

Command plan_command() {
  return {
      .name = "plan",
      .summary = "shows what a model costs: parameters, memory, arithmetic",
      .details =
          "Prints parameters (all, and active per token), a picture of the stack, bytes "
          "of weights and decode state, operations per token, and the memory for activations "
          "under each rematerialisation policy, from compiled training graphs. Reads "
          "only the description: no weights, no data.",
      .options = {device_option(), packed_option(), quantize_option(), quantize_rule_option(),
                  kv_dtype_option(),
                  dtype_option({}, "Type to compute in. Default: the run file's, or bfloat16."),
                  integer_option(
                      "batch", 'b', {},
                      "Rows computed together. Default: the run file's microbatch, or 1.", 1,
                      decoder::kMaxTokens),
                  integer_option(
                      "context", 'c', {},
                      "Tokens per row, and capacity of the decode state. Default: the run file's "
                      "sequence length, or 4096 within the model's positions.",
                      1, decoder::kMaxTokens),
                  set_option(), json_option()},
      .positionals = {{.name = "RUN.toml|MODEL",
                       .doc = "A run file, a model file or a directory with a model."}},
      .examples = {"lamina plan configs/models/gpt2-124m.toml",
                   "lamina plan configs/train/quickstart.toml --set train.microbatch_size=4",
                   "lamina plan my-model --json"},
      .run = run_plan,
      .takes_described_devices = true};
}

}  // namespace lamina::cli
