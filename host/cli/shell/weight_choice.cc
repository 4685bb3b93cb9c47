#include "cli/shell/weight_choice.h"

namespace lamina::cli {

Option weights_option() {
  return {
      .key =
          {.name = "weights",
           .type = Type::string,
           .preset = Value("model"),
           .choices = {"model", "ema"},
           .doc =
               "Weights of a checkpoint: the trained ones, or their moving average (train.ema)."},
      .value = "WHICH"};
}

Option packed_option() {
  return flag_option("packed",
                     "Keep weights in blocks (GGUF, MXFP4, fp8) in memory, where their files have "
                     "them, instead of converting them to --dtype when the model is loaded: less "
                     "memory and an earlier start, but mostly slower products. The results are the "
                     "same.");
}

config::Overrides model_overrides(const Arguments& a) {
  config::Overrides out{.sets = a.texts("set"), .environment = config::process_environment()};
  // Keys of other sections have been checked, and have no effect on a model.
  std::erase_if(out.environment, [](const std::string& variable) {
    return !variable.starts_with("LAMINA_MODEL__");
  });
  return out;
}

model::WeightChoice weight_choice(const Arguments& a) {
  return {.adapter = adapter_path(a),
          .average = a.text("weights") == "ema",
          .packed = a.flag("packed"),
          .overrides = model_overrides(a)};
}

}  // namespace lamina::cli
