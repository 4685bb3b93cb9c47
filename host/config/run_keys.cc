// The keys of run files: type, unit, limits and help text of each, bound to its field.
#include "config/run_config.h"

namespace lamina::config {
namespace {

// What may also stand at the top of a file, and in [model] beside the plugin's keys.
Section top_section() {
  Key family;
  family.name = "family";
  family.type = Type::string;
  family.doc =
      "The model family, as a plugin declares it (`lamina plugin list`). Needed unless "
      "`model` names a file that says it.";
  return {"", "At the top of the file, above the first section.", {family}};
}

Section model_section() {
  Key path;
  path.name = "path";
  path.type = Type::string;
  path.path = true;
  path.doc =
      "A published model directory, its config.json, or a file of configs/models/; other "
      "keys of [model] override what it says. `model = \"...\"` at the top is the short form.";
  return {"model",
          "The architecture. The family's plugin declares the keys, with the names of published "
          "config.json files; `lamina plugin inspect NAME` lists them. Those of Engram are for "
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
      "Values with this tag are kept on the device, kept in the memory of the CPU, or computed "
      "again. The CPU backend has one memory: \"offload\" keeps.";
  residency.hot = true;
  residency.any_name = true;
  return {"train.remat_tags",
          "What happens to values by their tags, with train.remat = \"custom\". `lamina explain` "
          "shows the tags of a model; what has none is computed again.",
          {residency}};
}

constexpr double kMaxSteps = 1e12;

}  // namespace

const Fields<RunSection>& run_fields() {
  static const Fields<RunSection> fields = {
      field("name", &RunSection::name,
            {.preset_text = "the run file's name", .doc = "What the run is called.", .hot = true}),
      field("out", &RunSection::out,
            {.preset_text = "runs/<name>",
             .doc = "The run directory: resolved config, metrics, log, checkpoints.",
             .hot = true,
             .path = true}),
      field("seed", &RunSection::seed,
            {.doc = "Seeds initial weights, data order and dropout, each by its own stream."}),
      field("threads", &RunSection::threads,
            {.preset_text = "all the machine allows",
             .unit = "threads",
             .min = 1,
             .max = 1024,  // as many as the CPU backend has room for
             .doc = "Threads of the CPU backend; -t overrides it. Results do not depend on it.",
             .hot = true}),
  };
  return fields;
}

const Fields<DataSection>& data_fields() {
  static const Fields<DataSection> fields = {
      field(
          "train", &DataSection::train,
          {.doc =
               "Text to train on: files, folders or globs, eg: train = [\"corpus.txt\"]. A folder "
               "stands for every file in it and below; names that begin with a dot are left "
               "out.",
           .required = true,
           .path = true}),
      field("validation", &DataSection::validation,
            {.doc = "Text for the validation loss: files, folders or globs.", .path = true}),
      field("validation_fraction", &DataSection::validation_fraction,
            {.min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "The share of the training text, at its end, that is kept back for the "
                    "validation loss."}),
      field("tokenizer", &DataSection::tokenizer,
            {.doc = "\"byte\" (one token per byte), or a directory with a tokenizer.json.",
             .path = true,
             .path_words = {"byte"}}),
      field("sequence_length", &DataSection::sequence_length,
            {.unit = "tokens", .min = 1, .max = 1 << 24, .doc = "Tokens in each training row."}),
      field("document_separator", &DataSection::document_separator,
            {.choices = {"file", "blank_line", "line"},
             .doc = "What ends a document: the end of a file, an empty line, or every line."}),
      field("pack", &DataSection::pack,
            {.doc = "Put several documents into one row. Attention never crosses documents."}),
      field("shuffle", &DataSection::shuffle,
            {.doc = "Visit the rows in a new random order in each epoch."}),
  };
  return fields;
}

const Fields<TrainSection>& train_fields() {
  static const Fields<TrainSection> fields = {
      field("steps", &TrainSection::steps,
            {.unit = "optimizer steps",
             .min = 1,
             .max = kMaxSteps,
             .doc = "Steps of the whole run; the schedule spans them.",
             .hot = true}),
      field("batch_size", &TrainSection::batch_size,
            {.unit = "rows",
             .min = 1,
             .max = 1 << 30,
             .doc = "Rows per optimizer step, over all microbatches."}),
      field("microbatch_size", &TrainSection::microbatch_size,
            {.preset_text = "train.batch_size",
             .unit = "rows",
             .min = 1,
             .max = 1 << 30,
             .doc = "Rows per forward and backward; must divide batch_size. Lower this first when "
                    "memory is short."}),
      field("dtype", &TrainSection::dtype,
            {.choices = {"float32", "bfloat16"},
             .doc = "Type of products and activations. Master weights, norms, softmax and loss "
                    "are float32 always.",
             .hot = false}),
      field("scan_layers", &TrainSection::scan_layers,
            {.doc = "Compile each distinct block once and run it once per layer; false unrolls.",
             .hot = true}),
      field("remat", &TrainSection::remat,
            {.doc = "What is kept for the backward pass and what is recomputed: \"none\" keeps "
                    "everything, \"full\" only the input of each block, \"custom\" what "
                    "[train.remat_tags] says; `lamina plan` prints what each costs.",
             .hot = true}),
      field("layer_metrics", &TrainSection::layer_metrics,
            {.doc = "Write to metrics.jsonl, for each layer, the mean, the standard deviation and "
                    "the share of zeros of its output, padding included, and its own losses.",
             .hot = true}),
      field("z_loss", &TrainSection::z_loss,
            {.min = 0, .doc = "Weight of the squared log-sum-exp of the logits in the loss."}),
      field("clip_norm", &TrainSection::clip_norm,
            {.min = 0, .doc = "Largest global norm of the gradient; 0 does not clip."}),
      field("eval_every_steps", &TrainSection::eval_every_steps,
            {.unit = "optimizer steps",
             .min = 0,
             .max = kMaxSteps,
             .doc = "Steps between validation losses; 0 measures only at the end.",
             .hot = true}),
      field("eval_batches", &TrainSection::eval_batches,
            {.unit = "batches",
             .min = 1,
             .max = 1 << 30,
             .doc = "Most batches that a validation loss is measured on.",
             .hot = true}),
      field("log_every_steps", &TrainSection::log_every_steps,
            {.unit = "optimizer steps",
             .min = 1,
             .max = kMaxSteps,
             .doc = "Steps between progress lines where there is no terminal.",
             .hot = true}),
  };
  return fields;
}

const Fields<OptimizerSection>& optimizer_fields() {
  static const Fields<OptimizerSection> fields = {
      field("name", &OptimizerSection::name,
            {.choices = {"adamw"}, .doc = "The update rule (Loshchilov & Hutter 2019)."}),
      field("lr", &OptimizerSection::lr,
            {.min = 0, .min_excluded = true, .doc = "Peak learning rate."}),
      field("beta1", &OptimizerSection::beta1,
            {.min = 0, .max = 1, .max_excluded = true, .doc = "Decay of the first moment."}),
      field("beta2", &OptimizerSection::beta2,
            {.min = 0, .max = 1, .max_excluded = true, .doc = "Decay of the second moment."}),
      field("eps", &OptimizerSection::eps,
            {.min = 0, .min_excluded = true, .doc = "Added to the root of the second moment."}),
      field("weight_decay", &OptimizerSection::weight_decay,
            {.min = 0, .doc = "Decoupled decay of matrices; norms and biases never decay."}),
      field("lazy_embeddings", &OptimizerSection::lazy_embeddings,
            {.doc = "Of tables that are only looked up (Engram's, an untied token table), update "
                    "the rows that the step looked up: a step costs nothing for the others, whose "
                    "moments and weight decay wait. False gives AdamW's numbers for every row."}),
  };
  return fields;
}

const Fields<ScheduleSection>& schedule_fields() {
  static const Fields<ScheduleSection> fields = {
      field("kind", &ScheduleSection::kind,
            {.choices = {"cosine", "linear", "constant"},
             .doc = "How the learning rate falls after the warm-up."}),
      field("warmup_steps", &ScheduleSection::warmup_steps,
            {.unit = "optimizer steps",
             .min = 0,
             .max = kMaxSteps,
             .doc = "Steps over which the learning rate rises from zero to its peak."}),
      field("final_fraction", &ScheduleSection::final_fraction,
            {.min = 0,
             .max = 1,
             .doc = "The learning rate at the last step, as a share of the peak. \"constant\" "
                    "does not use it."}),
  };
  return fields;
}

const Fields<CheckpointSection>& checkpoint_fields() {
  static const Fields<CheckpointSection> fields = {
      field("every_steps", &CheckpointSection::every_steps,
            {.unit = "optimizer steps",
             .min = 0,
             .max = kMaxSteps,
             .doc = "Steps between checkpoints; 0 saves only at the end and on signals.",
             .hot = true}),
      field("keep", &CheckpointSection::keep,
            {.unit = "checkpoints",
             .min = 1,
             .max = 1 << 30,
             .doc = "How many of the newest checkpoints stay on disk.",
             .hot = true}),
  };
  return fields;
}

const Schema& run_schema() {
  static const Schema schema = {{
      top_section(),
      section("run", "Name, place and seed of the run.", run_fields()),
      model_section(),
      section("data", "Where the text comes from and how it becomes rows.", data_fields()),
      section("train", "The training loop.", train_fields()),
      remat_tags_section(),
      section("optimizer", "How weights follow gradients.", optimizer_fields()),
      section("schedule", "The learning rate over the steps.", schedule_fields()),
      section("checkpoint", "When the run is saved.", checkpoint_fields()),
  }};
  return schema;
}

}  // namespace lamina::config
