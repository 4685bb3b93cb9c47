// lamina ckpt merge: merges an adapter into its model.
#include <fmt/format.h>

#include "cli/ckpt/output_directory.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/text.h"
#include "cli/shell/units.h"
#include "cli/shell/weight_choice.h"
#include "model/merge.h"

namespace lamina::cli {
namespace {

int run_merge(const Arguments& a, const Device& device) {
  const std::string& path = a.positionals[0];
  const model::WeightChoice choice = weight_choice(a);
  std::vector<std::string> sources = {path};
  if (!choice.adapter.empty()) sources.push_back(choice.adapter);
  const weights::Exported out = model::while_training(sources, [&] {
    return model::merge_to_hf(path, choice, a.text("to"), stored_type(a), plugin_catalog(a.globals),
                              device.backend());
  });
  note_tokenizer(a.text("to"));
  print(fmt::format("{}: {} tensors, {}\n", a.text("to"), out.num_tensors,
                    bytes_text(static_cast<double>(out.num_bytes))));
  return 0;
}

}  // namespace

Command ckpt_merge_command() {
  return {
      .name = "ckpt merge",
      .summary = "writes a model and its adapter as one Hugging Face directory",
      .details =
          "Each adapted matrix becomes w + scale b a, computed in float32 and rounded once to "
          "its type. The directory has the layout of the adapter's model and no adapter.",
      .options = {adapter_option(), weights_option(), to_option(),
                  stored_type_option(
                      "Type of the tensors; default: the type in the adapter's model, bfloat16 for "
                      "quantised weights.")},
      .positionals = {{.name = "DIR",
                       .doc = "A run or checkpoint trained with [lora], an adapter as PEFT "
                              "saves it, or with --adapter its model."}},
      .examples = {"lamina ckpt merge runs/mine --to merged",
                   "lamina ckpt merge model --adapter adapter --to merged"},
      .run = run_merge};
}

}  // namespace lamina::cli
