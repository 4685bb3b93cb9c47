#include "cli/eval/eval_subject.h"

#include <filesystem>

#include "cli/shell/plugins.h"
#include "cli/shell/signals.h"
#include "cli/shell/weight_choice.h"
#include "core/error.h"
#include "device/workers.h"
#include "train/checkpoint/best_checkpoint.h"
#include "train/loop/resumption.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

// The run file that belongs to a run directory or a checkpoint; "" if there is none.
std::string run_file_of(const std::string& named) {
  const std::string path = train::resolve_best(named);
  for (const char* name : {"config.toml", "run.toml"})
    if (fs::is_regular_file(fs::path(path) / name)) return (fs::path(path) / name).string();
  return "";
}

EvalSubject open_subject(const std::string& path, const model::WeightChoice& choice,
                         bool needs_tokenizer, const Globals& globals) {
  EvalSubject s{model::open_weights(path, plugin_catalog(globals), choice),
                nullptr,
                nullptr,
                {},
                DType::bf16,
                choice};
  s.files = s.opened.weight_files();
  if (needs_tokenizer || text::has_tokenizer(s.opened.directory))
    s.tokenizer = text::load_tokenizer(s.opened.directory);
  return s;
}

}  // namespace

model::Loaded EvalSubject::load(const Device& device,
                                const std::function<void(const decoder::Model&)>& described) && {
  model::set_storage(*opened.model, *files, choice, dtype, /*losses=*/true);
  if (described) described(*opened.model);
  weights::Weights weights = weights::Weights::load(*opened.model, files, dtype, device.backend(),
                                                    device::workers(device), end_if_asked);
  return {std::move(opened), std::move(weights), std::move(tokenizer)};
}

EvalSubject find_eval_subject(const Arguments& a) {
  if (a.positionals.empty() == !a.has("model"))
    throw UserError(ExitCode::usage,
                    {"eval",
                     a.has("model") ? "got two models; keep one"
                                    : "a model is missing; use -m DIR --data FILE, or RUN_DIR",
                     {}});
  const std::string& path = a.has("model") ? a.text("model") : a.positionals[0];
  const model::WeightChoice choice = weight_choice(a);
  EvalSubject s = model::while_training(
      path, [&] { return open_subject(path, choice, !a.has("ids"), a.globals); });
  if (const std::string run_file = run_file_of(path); !run_file.empty()) {
    s.run = train::load_moved_run(run_file);
    if (!a.has("data") && !a.has("ids")) s.dtype = s.run->train.dtype;
  }
  if (a.has("dtype")) s.dtype = *parse_dtype(a.text("dtype"));
  return s;
}

EvalSubject find_eval_reference(const Arguments& a) {
  const std::string& path = a.text("against");
  // Products with blocks round activations, which a reference must not.
  const model::WeightChoice choice = {.packed = false};
  return model::while_training(path, [&] { return open_subject(path, choice, false, a.globals); });
}

}  // namespace lamina::cli
