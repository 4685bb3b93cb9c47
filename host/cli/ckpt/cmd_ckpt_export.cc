// lamina ckpt export: writes a checkpoint in the Hugging Face layout.
#include <fmt/format.h>

#include "cli/ckpt/output_directory.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/text.h"
#include "cli/shell/units.h"
#include "cli/shell/weight_choice.h"
#include "core/json_writer.h"
#include "model/export.h"
#include "model/open.h"

namespace lamina::cli {
namespace {

std::optional<weights::Layout> layout(const Arguments& a) {
  if (!a.has("layout")) return {};
  return a.text("layout") == "fused" ? weights::Layout::fused : weights::Layout::published;
}

int run_export(const Arguments& a, const Device& device) {
  const auto [from, out] = model::while_training(a.positionals[0], [&] {
    return model::export_model(
        a.positionals[0], a.text("to"),
        {.dtype = stored_type(a), .layout = layout(a), .average = weight_choice(a).average},
        plugin_catalog(a.globals), device.backend());
  });
  note_tokenizer(a.text("to"));
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
  return {.name = "ckpt export",
          .summary = "writes a model as a Hugging Face directory",
          .details =
              "config.json, model.safetensors under the published names, tokenizer files and "
              "generation_config.json. For a run directory, the newest checkpoint. Checkpoints "
              "hold float32, so an export without --dtype loads to the same bits. An export of a "
              "run with "
              "train.from has the names, types and files of the starting model. The export is "
              "loaded as a check before it gets its name.",
          .options = {weights_option(), to_option(),
                      stored_type_option(
                          "Type of the tensors; default: the stored type. Quantised weights are "
                          "copied, or become bfloat16 if the layout changes."),
                      choice_option(
                          "layout", "LAYOUT", {"published", "fused"}, {},
                          "fused: q_proj, k_proj and v_proj as one tensor qkv_proj, gate_proj "
                          "and up_proj as gate_up_proj; published: the layout in which the family "
                          "is published, separate for most. Default: as stored. lamina reads both, "
                          "transformers only the published one."),
                      json_option()},
          .positionals = {{.name = "DIR",
                           .doc = "A run directory, a checkpoint or a Hugging Face directory."}},
          .examples = {"lamina ckpt export build/quickstart/run --to model --dtype bfloat16"},
          .run = run_export};
}

}  // namespace lamina::cli
