// lamina ckpt export: a checkpoint as Hugging Face lays it out.
#include <fmt/format.h>

#include <filesystem>

#include "cli/commands.h"
#include "cli/plugins.h"
#include "cli/text.h"
#include "cli/units.h"
#include "core/json_writer.h"
#include "model/fold.h"
#include "model/open.h"
#include "weights/hf_export.h"
#include "weights/tensor_map.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

struct ExportedFrom {
  std::string directory;
  weights::Exported written;
};

// What was written is a model, and all its tensors are there in the right shapes.
void check_that_it_loads(const std::string& directory, const Globals& globals) {
  const model::OpenedModel opened = model::open_weights(directory, plugin_catalog(globals));
  weights::match_weights(*opened.model, io::WeightFiles(directory));
}

ExportedFrom export_once(const Arguments& a, const Backend& backend) {
  model::OpenedModel opened = model::open(a.positionals[0], plugin_catalog(a.globals));
  if (opened.directory.empty())
    throw UserError(ExitCode::checkpoint, {a.positionals[0],
                                           "describes a model but has no weights; give a "
                                           "checkpoint, a run directory or a model directory",
                                           {}});
  if (opened.model->adapter())
    throw UserError(ExitCode::usage,
                    {a.positionals[0],
                     "is a model with an adapter, which has no published form",
                     {"`lamina ckpt merge` writes a model that has both; the adapter by itself is "
                      "adapter_model.safetensors of a checkpoint"}});
  std::optional<DType> dtype;
  if (a.has("dtype")) dtype = parse_dtype(a.text("dtype"));
  const std::string to = a.text("to");
  std::optional<model::FoldedModel> folded;
  if (!opened.model->options().exports_as.empty() && !fs::exists(to))
    folded.emplace(*opened.model, opened.directory, to, plugin_catalog(a.globals), backend);
  return {opened.directory, weights::export_to_hf(folded ? folded->model() : *opened.model,
                                                  folded ? folded->directory() : opened.directory,
                                                  to, dtype, [&](const std::string& written) {
                                                    check_that_it_loads(written, a.globals);
                                                  })};
}

int run_export(const Arguments& a, const Machine& machine) {
  const auto [from, out] =
      model::while_training(a.positionals[0], [&] { return export_once(a, machine.backend); });
  if (!a.flag("json")) {
    print(fmt::format("{}: {} tensors, {}, from {}\n", a.text("to"), out.num_tensors,
                      bytes_text(static_cast<double>(out.num_bytes)), from));
    return 0;
  }
  JsonWriter json(2);
  json.begin_object().key("from").value(from).key("to").value(a.text("to"));
  json.key("tensors").value(out.num_tensors).key("bytes").value(out.num_bytes).end_object();
  print(json.text() + "\n");
  return 0;
}

}  // namespace

Command ckpt_export_command() {
  Option to{.key = {.name = "to",
                    .type = Type::string,
                    .doc = "The directory to write; it must not exist."},
            .value = "DIR"};
  to.key.required = true;
  Option dtype{.key = {.name = "dtype", .type = Type::string}, .value = "TYPE"};
  dtype.key.choices = {"float32", "bfloat16"};
  dtype.key.doc = "Type of the tensors; as they are stored unless given.";
  return {
      .name = "ckpt export",
      .summary = "writes a model as a Hugging Face directory",
      .details =
          "config.json, model.safetensors under the published names, tokenizer files and "
          "generation_config.json. For a run directory, the newest checkpoint. Checkpoints "
          "hold float32, so an export without --dtype loads to the same bits; one of a run with "
          "train.from has the names, types and files that it began with. What was written is "
          "loaded before it gets its name.",
      .options = {to, dtype, json_option()},
      .positionals = {{.name = "DIR",
                       .doc = "A run directory, a checkpoint or a Hugging Face directory."}},
      .examples = {"lamina ckpt export runs/quickstart --to model --dtype bfloat16"},
      .run = run_export};
}

}  // namespace lamina::cli
