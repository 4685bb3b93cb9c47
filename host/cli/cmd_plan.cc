// lamina plan: what a model costs, from its description alone: parameters, memory, arithmetic.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/backend.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/open_model.h"
#include "cli/plan/report.h"
#include "decoder/call_limits.h"
#include "train/gradients.h"

namespace lamina::cli {
namespace {

constexpr std::int64_t kContext = 4096;

struct Subject {
  std::unique_ptr<decoder::Model> model;
  PlanOptions options;
};

// The model and, of a run file, what the run computes with.
Subject find_subject(const Arguments& a) {
  const std::string& path = a.positionals[0];
  if (!is_run_file(path)) {
    require_description(path);
    Subject out{
        std::move(open_model(path, a.globals, {.compress_tokens = decoder::uncompressed_tokens},
                             a.texts("set"))
                      .model),
        {}};
    out.options.tokens = kContext;
    const registry::EmbedSpec& embed = out.model->options().embed;
    if (embed.positions == registry::Positions::learned)
      out.options.tokens = std::min(out.options.tokens, embed.max_positions);
    return out;
  }
  config::RunConfig c = config::load_run(path, {a.texts("set"), config::process_environment()});
  auto model = std::make_unique<decoder::Model>(make_model(
      c.model, a.globals,
      {.scan_layers = c.train.scan_layers, .compress_tokens = decoder::uncompressed_tokens}));
  const autodiff::RematPolicy remat = train::remat_policy(c, *model);
  return {std::move(model),
          {.microbatches = c.train.batch_size / c.train.microbatch_size,
           .batch = c.train.microbatch_size,
           .tokens = c.data.sequence_length,
           .dtype = c.train.dtype,
           .segments = c.data.pack,
           .remat = remat}};
}

int run(const Arguments& a) {
  apply_threads(a.globals);
  auto [model, options] = find_subject(a);
  if (a.given("batch")) options.batch = a.integer("batch");
  if (a.given("context")) options.tokens = a.integer("context");
  if (a.given("dtype")) options.dtype = *parse_dtype(a.text("dtype"));
  model->check_length(options.tokens, a.given("context") ? "--context" : "data.sequence_length");
  ModelPlan plan = plan_model(*model, options, cpu::cpu_backend());
  const std::string& name = a.positionals[0];
  print(a.flag("json") ? plan_json(name, plan) : plan_text(name, plan));
  return 0;
}

Option count(std::string name, char short_name, std::string doc) {
  return {.key = {.name = std::move(name),
                  .type = Type::integer,
                  .min = 1,
                  .max = decoder::kMostTokens,
                  .doc = std::move(doc)},
          .short_name = short_name,
          .value = "N"};
}

}  // namespace

Command plan_command() {
  Option dtype{.key = {.name = "dtype", .type = Type::string}, .value = "TYPE"};
  dtype.key.choices = {"float32", "bfloat16"};
  dtype.key.doc = "Type to compute in. Default: the run file's, or bfloat16.";
  return {
      .name = "plan",
      .summary = "shows what a model costs: parameters, memory, arithmetic",
      .details =
          "Prints parameters (all, and those that one token uses), a picture of the stack, bytes "
          "of weights and decode state, operations per token, and the activations that each "
          "rematerialisation policy of training needs, as the memory planner lays them out. Reads "
          "a description only: no weights, no data.",
      .options = {dtype,
                  count("batch", 'b', "Rows at once. Default: the run file's microbatch, or 1."),
                  count("context", 'c',
                        "Tokens per row, and of the decode state. Default: the run file's "
                        "sequence length, or 4096 within the model's positions."),
                  set_option(), json_option()},
      .positionals = {{.name = "RUN.toml|MODEL",
                       .doc = "A run file, a model file or a directory with a model."}},
      .examples = {"lamina plan configs/models/gpt2-124m.toml",
                   "lamina plan configs/train/quickstart.toml --set train.microbatch_size=4",
                   "lamina plan my-model --json"},
      .run = run};
}

}  // namespace lamina::cli
