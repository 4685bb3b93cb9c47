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

model::WeightChoice weight_choice(const Arguments& a) {
  return {.adapter = adapter_path(a), .average = a.text("weights") == "ema"};
}

}  // namespace lamina::cli
