// The sections of run files. A key is a row in keys/: its type, unit, limits and help text, bound
// to its field.
#include "config/run_config.h"

namespace lamina::config {
namespace {

// Keys at the top of a file, and in [model] beside the plugin's keys.
Section top_section() {
  Key family;
  family.name = "family";
  family.type = Type::string;
  family.doc =
      "The model family, as its plugin declares it (`lamina plugin list`). Required unless `model` "
      "names a file that gives the family.";
  return {"", "At the top of the file, above the first section.", {family}};
}

Section model_section() {
  Key path;
  path.name = "path";
  path.type = Type::string;
  path.path = true;
  path.doc =
      "A published model directory, its config.json, or a file of configs/models/. Other keys of "
      "[model] override its values. `model = \"...\"` at the top is the short form.";
  return {"model",
          "The architecture. The family's plugin declares the keys, under the names of published "
          "config.json files; `lamina plugin inspect NAME` lists them. The engram_* keys exist for "
          "every family.",
          {path},
          true};
}

Section remat_tags_section() {
  Key residency;
  residency.name = "TAG";
  residency.type = Type::string;
  residency.choices = {"device", "offload", "remat"};
  residency.preset_text = "\"remat\"";
  residency.doc =
      "Values with this tag are kept on the device, offloaded to host memory, or recomputed. On "
      "the CPU, which has one memory, \"offload\" is the same as \"device\".";
  residency.hot = true;
  residency.any_name = true;
  return {
      "train.remat_tags",
      "Rematerialisation per tag, with train.remat = \"custom\". `lamina explain` shows the tags "
      "of a model. Values without a tag are recomputed.",
      {residency}};
}

}  // namespace

const Fields<RunSection>& run_fields() {
  static const Fields<RunSection> fields = {
      field("name", &RunSection::name,
            {.preset_text = "the run file's name", .doc = "Name of the run.", .hot = true}),
      field("out", &RunSection::out,
            {.preset_text = "runs/<name>",
             .doc = "The run directory: resolved config, metrics, log, checkpoints. The default is "
                    "relative to the current folder, as --out is.",
             .hot = true,
             .path = true}),
      field("seed", &RunSection::seed,
            {.doc = "Seed of initial weights, data order and dropout, each with a separate "
                    "stream."}),
      field("threads", &RunSection::threads,
            {.preset_text = "all available cores",
             .unit = "threads",
             .min = 1,
             .max = 1024,  // the limit of the CPU backend
             .doc = "Threads of the CPU backend; -t overrides it. Results do not depend on it.",
             .hot = true}),
  };
  return fields;
}

const Schema& run_schema() {
  static const Schema schema = {{
      top_section(),
      section("run", "Name, directory and seed of the run.", run_fields()),
      model_section(),
      section("data", "Training text and its packing into rows.", data_fields()),
      section("train", "The training loop.", train_fields()),
      remat_tags_section(),
      section("lora", "A low-rank adapter over a frozen model; docs/finetuning.md.", lora_fields()),
      section("preference", "The preference loss, with data.form = \"preference\".",
              preference_fields()),
      section("distillation", "Learning from a second model; docs/finetuning.md.",
              distillation_fields()),
      section("optimizer", "Optimizer.", optimizer_fields()),
      section("schedule", "Learning-rate schedule.", schedule_fields()),
      section("checkpoint", "Checkpoints of the run.", checkpoint_fields()),
  }};
  return schema;
}

}  // namespace lamina::config
