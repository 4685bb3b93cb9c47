// Keys of run files: type, unit, limits and help text of each, bound to its field.
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
      "Values with this tag are kept on the device, offloaded to CPU memory, or recomputed. The "
      "CPU backend has only one memory, so \"offload\" keeps them there.";
  residency.hot = true;
  residency.any_name = true;
  return {
      "train.remat_tags",
      "Rematerialisation per tag, with train.remat = \"custom\". `lamina explain` shows the tags "
      "of a model. Values without a tag are recomputed.",
      {residency}};
}

constexpr double kMaxSteps = 1e12;

}  // namespace

template <>
const Fields<ParameterGroup>& detail::table_fields() {
  static const Fields<ParameterGroup> fields = {
      field("match", &ParameterGroup::match,
            {.doc = "Pattern for the whole name of a parameter: `*` matches any characters, `?` "
                    "one character, `[0-9]` one of a set, `@(a|b)` one of two patterns, `!(a)` "
                    "anything else. `lamina plugin inspect` and checkpoints show the names."}),
      field("group", &ParameterGroup::group,
            {.doc = "The group that the family's plugin assigns to the parameter."}),
      field("role", &ParameterGroup::role,
            {.choices = {"weight", "bias", "norm", "embedding", "head", "router", "scalar", "conv"},
             .doc = "The role of the parameter. A table with several of these three keys selects "
                    "the parameters that match all of them."}),
      field("frozen", &ParameterGroup::frozen,
            {.doc = "Freezes the parameters: no gradient, no moments, no weight decay, and no "
                    "updates by their layers."}),
      field("lr_scale", &ParameterGroup::lr_scale,
            {.min = 0,
             .min_excluded = true,
             .doc = "Learning rate, as a multiple of the schedule's."}),
      field("multiplier", &ParameterGroup::multiplier,
            {.min = 0,
             .min_excluded = true,
             .doc = "The optimizer treats the parameter as multiplied by this number: gradients "
                    "are multiplied by it (also in norms), and so are updates; weight decay is "
                    "not. eg: 8.0 where another program stores and trains 1/8 of the matrix."}),
      field("weight_decay", &ParameterGroup::weight_decay,
            {.min = 0, .doc = "Replaces `weight_decay`, also for norms and biases."}),
      field("split_rows", &ParameterGroup::split_rows,
            {.unit = "rows",
             .min = 1,
             .doc = "For \"muon\": the matrix consists of several matrices of this many rows each, "
                    "stacked by rows, and each is orthogonalised separately. eg: queries, keys and "
                    "values in one matrix."}),
  };
  return fields;
}

const Fields<RunSection>& run_fields() {
  static const Fields<RunSection> fields = {
      field("name", &RunSection::name,
            {.preset_text = "the run file's name", .doc = "Name of the run.", .hot = true}),
      field("out", &RunSection::out,
            {.preset_text = "runs/<name>",
             .doc = "The run directory: resolved config, metrics, log, checkpoints.",
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

const Fields<DataSection>& data_fields() {
  static const Fields<DataSection> fields = {
      field(
          "train", &DataSection::train,
          {.doc = "Training text: files, folders or globs, eg: train = [\"corpus.txt\"]. A folder "
                  "means every file below it; names that begin with a dot are skipped.",
           .required = true,
           .path = true}),
      field(
          "weights", &DataSection::weights,
          {.min = 0,
           .min_excluded = true,
           .doc = "Share of training rows from each entry of data.train, eg: [3, 1]. Each entry is "
                  "repeated independently. Without weights every row is used once per epoch."}),
      field("validation", &DataSection::validation,
            {.doc = "Text for the validation loss: files, folders or globs.", .path = true}),
      field("validation_fraction", &DataSection::validation_fraction,
            {.min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "Fraction of the training text, taken from its end, that is held out for "
                    "validation."}),
      field("form", &DataSection::form,
            {.choices = {"text", "jsonl", "chat", "preference", "tokens"},
             .doc = "Format of the files: text; JSON objects with a text, one per line; JSON "
                    "objects with conversations, or with pairs of answers, rendered with the "
                    "model's chat template; or tokens written by llm.c, nanoGPT or Megatron. Files "
                    "named .gz or .zst are unpacked. docs/data.md describes all forms."}),
      field("field", &DataSection::field,
            {.doc = "The member of each object that contains its text, with form = \"jsonl\"."}),
      field("loss_on", &DataSection::loss_on,
            {.choices = {"assistant", "last", "all"},
             .doc = "With form = \"chat\": the text that the loss covers, which is every answer, "
                    "the last answer of each conversation, or the whole conversation.",
             .only_for = Requirement{"data.form", {"chat"}}}),
      field(
          "thinking", &DataSection::thinking,
          {.choices = {"keep", "drop"},
           .doc = "With form = \"chat\" and \"preference\": how reasoning in assistant messages is "
                  "handled: passed to the template, or removed and turned off in the template.",
           .only_for = Requirement{"data.form", {"chat", "preference"}}}),
      field("chat_template", &DataSection::chat_template,
            {.preset_text = "the one in data.tokenizer's directory",
             .doc = "A file with the chat template for form = \"chat\" and \"preference\".",
             .path = true,
             .only_for = Requirement{"data.form", {"chat", "preference"}}}),
      field(
          "bad_records", &DataSection::bad_records,
          {.choices = {"stop", "skip"},
           .doc = "How to handle a line that is not a valid record: fail before the run begins, or "
                  "skip it and count it."}),
      field(
          "store", &DataSection::store,
          {.preset_text = "tokens, beside the run directory",
           .doc = "Folder for the token store. Runs on the same files with the same tokenizer map "
                  "the stored tokens instead of tokenizing again; \"none\" keeps tokens in memory. "
                  "lamina never removes files from it; all of them can be deleted.",
           .hot = true,
           .path = true,
           .path_words = {"none"}}),
      field("tokenizer", &DataSection::tokenizer,
            {.preset_text = "train.from, else \"byte\"",
             .doc = "\"byte\" (one token per byte), or a directory with a tokenizer.json.",
             .path = true,
             .path_words = {"byte"}}),
      field("sequence_length", &DataSection::sequence_length,
            {.unit = "tokens", .min = 1, .max = 1 << 24, .doc = "Tokens in each training row."}),
      field("document_separator", &DataSection::document_separator,
            {.choices = {"file", "blank_line", "line"},
             .doc = "End of a document: the end of a file, an empty line, or every line."}),
      field("pack", &DataSection::pack,
            {.doc = "Pack several documents into one row. Attention never crosses documents. "
                    "Conversations are kept whole; one that is longer than a row is cut."}),
      field("shuffle", &DataSection::shuffle,
            {.doc = "Visit the rows in a new random order in each epoch."}),
      field("shuffle_documents", &DataSection::shuffle_documents,
            {.doc = "Shuffle the documents of each source by run.seed before they are packed into "
                    "rows, so that neighbours in a file are not neighbours in a row. The rows are "
                    "then the same in all epochs. data.validation is not shuffled."}),
  };
  return fields;
}

const Fields<TrainSection>& train_fields() {
  static const Fields<TrainSection> fields = {
      field("from", &TrainSection::from,
            {.preset_text = "fresh weights",
             .doc = "Initial weights: a published model directory, a GGUF file, a checkpoint or a "
                    "run directory. It also provides family, [model] and data.tokenizer, which may "
                    "be left out; docs/finetuning.md.",
             .path = true}),
      field("fresh", &TrainSection::fresh,
            {.doc = "Tensors that are missing in train.from and are initialised as in a fresh "
                    "model, by our names or the published ones; * matches anything. New rows "
                    "of a vocabulary start as the mean of the existing rows.",
             .only_for = Requirement{"train.from"}}),
      field("steps", &TrainSection::steps,
            {.unit = "optimizer steps",
             .min = 1,
             .max = kMaxSteps,
             .doc = "Optimizer steps of the whole run, which the schedule spans.",
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
             .doc = "Rows per forward and backward pass; must divide batch_size. Lower this first "
                    "when memory is short."}),
      field("dtype", &TrainSection::dtype,
            {.choices = {"float32", "bfloat16"},
             .doc = "Type of matrix products and activations. Master weights, norms, softmax "
                    "and loss are always float32.",
             .hot = false}),
      field("scan_layers", &TrainSection::scan_layers,
            {.doc = "Compile each distinct block once and run it once per layer; false unrolls.",
             .hot = true}),
      field("remat", &TrainSection::remat,
            {.doc = "Values kept for the backward pass: \"none\" keeps everything, \"full\" only "
                    "the input of each block, \"custom\" follows [train.remat_tags]. Other values "
                    "are recomputed. `lamina plan` prints the cost of each choice.",
             .hot = true}),
      field("layer_metrics", &TrainSection::layer_metrics,
            {.doc =
                 "Write to metrics.jsonl, for each layer, the mean, the standard deviation and the "
                 "fraction of zeros of its output, padding included, and its auxiliary losses.",
             .hot = true}),
      field("tensorboard", &TrainSection::tensorboard,
            {.doc = "Also write the numbers of metrics.jsonl to TensorBoard event files, in the "
                    "folder tensorboard of the run directory.",
             .hot = true}),
      field("z_loss", &TrainSection::z_loss,
            {.min = 0, .doc = "Weight of the squared log-sum-exp of the logits in the loss."}),
      field("label_smoothing", &TrainSection::label_smoothing,
            {.min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "Share of each label that is spread evenly over all tokens of the vocabulary. "
                    "The reported training and validation losses do not include smoothing."}),
      field("ema", &TrainSection::ema,
            {.min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "Decay of a moving average of the weights, eg: 0.999; 0 = none. It is kept in "
                    "checkpoints; `--weights ema` decodes, evaluates and exports it."}),
      field("eval_weights", &TrainSection::eval_weights,
            {.choices = {"model", "ema"},
             .doc = "Weights used for the validation loss: the trained weights, or their moving "
                    "average."}),
      field(
          "clip_norm", &TrainSection::clip_norm,
          {.min = 0,
           .doc =
               "Maximum global norm of the gradient, above which it is clipped; 0 = no clipping."}),
      field("clip_each", &TrainSection::clip_each,
            {.doc = "Clip the gradient of each parameter by the parameter's own norm instead of "
                    "clipping all by the global norm."}),
      field(
          "skip_spikes", &TrainSection::skip_spikes,
          {.min = 0,
           .doc = "Skip the update of a step whose loss or gradient norm exceeds the mean of "
                  "previous steps by more than this many standard deviations; 0 = never. A skipped "
                  "step does not count for the schedule."}),
      field("spike_window", &TrainSection::spike_window,
            {.unit = "optimizer steps",
             .min = 2,
             .max = 1 << 20,
             .doc = "Window of past steps for skip_spikes; at least half of it must exist."}),
      field("eval_every_steps", &TrainSection::eval_every_steps,
            {.unit = "optimizer steps",
             .min = 0,
             .max = kMaxSteps,
             .doc = "Steps between validations; 0 = only at the end.",
             .hot = true}),
      field("eval_batches", &TrainSection::eval_batches,
            {.preset_text = "all held-out rows",
             .unit = "batches",
             .min = 1,
             .max = 1 << 30,
             .doc = "Size of a validation: this many times batch_size rows, from the start of the "
                    "held-out rows, each once. The microbatch size does not affect it.",
             .hot = true}),
      field("sample_every_steps", &TrainSection::sample_every_steps,
            {.unit = "optimizer steps",
             .min = 0,
             .max = kMaxSteps,
             .doc = "Steps between samples: completions of sample_prompts, in the log and in "
                    "metrics.jsonl, also after the last step; 0 = none. Sampling depends on "
                    "run.seed; training does not depend on sampling.",
             .hot = true}),
      field("sample_prompts", &TrainSection::sample_prompts,
            {.doc = "Prompts of the samples; \"\" is the beginning of a text.", .hot = true}),
      field("sample_tokens", &TrainSection::sample_tokens,
            {.unit = "tokens",
             .min = 1,
             .max = 1 << 20,
             .doc = "Maximum length of a sample, without its prompt.",
             .hot = true}),
      field("sample_temperature", &TrainSection::sample_temperature,
            {.min = 0, .doc = "Temperature of samples; 0 = greedy.", .hot = true}),
      field("log_every_steps", &TrainSection::log_every_steps,
            {.unit = "optimizer steps",
             .min = 1,
             .max = kMaxSteps,
             .doc = "Steps between progress lines when stderr is not a terminal.",
             .hot = true}),
  };
  return fields;
}

const Fields<OptimizerSection>& optimizer_fields() {
  static const Fields<OptimizerSection> fields = {
      field("name", &OptimizerSection::name,
            {.choices = {"adamw", "muon", "sgd", "lion", "adafactor"},
             .doc = "The update rule; docs/optimizers.md has the equations. \"muon\" applies to "
                    "weight matrices and routers, and AdamW to all other parameters."}),
      field("lr", &OptimizerSection::lr,
            {.min = 0, .min_excluded = true, .doc = "Peak learning rate."}),
      field("beta1", &OptimizerSection::beta1,
            {.min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "Decay of the first moment.",
             .only_for = Requirement{"optimizer.name", {"adamw", "muon", "lion"}}}),
      field("beta2", &OptimizerSection::beta2,
            {.min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "Decay of the second moment.",
             .only_for = Requirement{"optimizer.name", {"adamw", "muon", "lion"}}}),
      field("eps", &OptimizerSection::eps,
            {.min = 0,
             .min_excluded = true,
             .doc = "Added to the square root of the second moment; for \"muon\" also to the norm "
                    "by which a matrix is divided.",
             .only_for = Requirement{"optimizer.name", {"adamw", "muon"}}}),
      field("eps_root", &OptimizerSection::eps_root,
            {.min = 0,
             .doc = "Added to the second moment, inside the square root.",
             .only_for = Requirement{"optimizer.name", {"adamw", "muon"}}}),
      field("momentum", &OptimizerSection::momentum,
            {.preset_text = "0.95 for \"muon\", 0 for \"sgd\"",
             .min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "Decay of the momentum of \"muon\" and \"sgd\".",
             .only_for = Requirement{"optimizer.name", {"muon", "sgd"}}}),
      field("consistent_rms", &OptimizerSection::consistent_rms,
            {.min = 0,
             .min_excluded = true,
             .doc = "For \"muon\": root mean square of updates, the same for every shape, eg: 0.2, "
                    "which is close to AdamW. Without it updates are scaled by sqrt(max(1, rows / "
                    "columns)).",
             .only_for = Requirement{"optimizer.name", {"muon"}}}),
      field("newton_schulz_steps", &OptimizerSection::newton_schulz_steps,
            {.min = 1,
             .max = 100,
             .doc = "For \"muon\": Newton-Schulz steps with the coefficients 3.4445, -4.775 and "
                    "2.0315, which bring singular values near 1 quickly.",
             .only_for = Requirement{"optimizer.name", {"muon"}}}),
      field("newton_schulz_stable_steps", &OptimizerSection::newton_schulz_stable_steps,
            {.min = 0,
             .max = 100,
             .doc = "For \"muon\": additional steps with the coefficients 2, -1.5 and 0.5, which "
                    "converge to 1. eg: 2 after 8.",
             .only_for = Requirement{"optimizer.name", {"muon"}}}),
      field("moments", &OptimizerSection::moments,
            {.choices = {"float32", "bfloat16", "8bit"},
             .doc = "Storage of moments: 4, 2 or 1 bytes per element. \"8bit\" has a scale for "
                    "every 256 elements. Adafactor stores sums of rows and columns, always in "
                    "float32.",
             .only_for = Requirement{"optimizer.name", {"adamw", "muon", "sgd", "lion"}}}),
      field("weight_decay", &OptimizerSection::weight_decay,
            {.min = 0,
             .doc = "Decoupled weight decay of matrices; norms and biases are not decayed."}),
      field("qk_clip", &OptimizerSection::qk_clip,
            {.min = 0,
             .doc = "For latent attention: after each update, the rows of query and key matrices "
                    "of a head whose largest logit in the step exceeded this threshold are scaled "
                    "down to it, eg: 100; 0 = none. docs/optimizers.md."}),
      field("qk_clip_over", &OptimizerSection::qk_clip_over,
            {.choices = {"layer", "stack"},
             .doc = "Scope of the largest logit for \"qk_clip\": each layer, or, as in MaxText "
                    "with scan_layers, all consecutive layers of one kind.",
             .only_for = Requirement{"optimizer.qk_clip"}}),
      field("lazy_embeddings", &OptimizerSection::lazy_embeddings,
            {.doc = "Update only the looked-up rows of lookup-only tables (Engram's, an untied "
                    "token table). The other rows cost nothing in a step, and their moments and "
                    "weight decay pause. False is exact AdamW for every row.",
             .only_for = Requirement{"optimizer.name", {"adamw"}}}),
      field("in_backward", &OptimizerSection::in_backward,
            {.doc = "Update the parameters of a layer as soon as the backward pass has their "
                    "gradients, and then free the gradients: memory for the gradients of one layer "
                    "instead of all. Cannot be combined with gradient accumulation, clipping by "
                    "the global norm or skip_spikes, which need every gradient first.",
             .hot = true}),
      field("groups", &OptimizerSection::groups,
            {.doc = "`[[optimizer.groups]]`: parameters that are frozen or learn with different "
                    "settings. The first table that matches a parameter applies."}),
  };
  return fields;
}

const Fields<LoraSection>& lora_fields() {
  static const Fields<LoraSection> fields = {
      field("rank", &LoraSection::rank,
            {.min = 0,
             .max = 1 << 16,
             .doc = "Rank of the adapter matrices that are trained instead of the model; 0 = no "
                    "adapter: the whole model is trained."}),
      field("alpha", &LoraSection::alpha,
            {.preset_text = "lora.rank",
             .min = 0,
             .doc = "The output of the adapter is multiplied by alpha / rank."}),
      field("target_modules", &LoraSection::target_modules,
            {.doc = "Matrices that get an adapter: module names as in PEFT (\"q_proj\"), ours "
                    "(\"attention.wq\"), or \"all-linear\" for all linear layers."}),
      field("dropout", &LoraSection::dropout,
            {.min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "Dropout on the input of the "
                    "adapter."}),
      field("rslora", &LoraSection::rslora,
            {.doc = "Multiply by alpha / sqrt(rank) instead (Kalajdzievski 2023)."}),
      field("use_dora", &LoraSection::use_dora,
            {.doc = "DoRA: the norm of each row of a matrix is trained separately, and the adapter "
                    "changes its direction (Liu et al. 2024).",
             .only_for = Requirement{"lora.rank"}}),
  };
  return fields;
}

const Fields<PreferenceSection>& preference_fields() {
  static const Fields<PreferenceSection> fields = {
      field("loss", &PreferenceSection::loss,
            {.choices = {"dpo", "ipo", "orpo"},
             .doc = "Preference loss; docs/finetuning.md has the equations. \"dpo\" and \"ipo\" "
                    "compare the model with its initial weights.",
             .only_for = Requirement{"data.form", {"preference"}}}),
      field("beta", &PreferenceSection::beta,
            {.min = 0,
             .min_excluded = true,
             .doc = "How closely the model stays with its initial weights: beta of DPO, tau of "
                    "IPO; for \"orpo\" the weight lambda of the odds ratio.",
             .only_for = Requirement{"data.form", {"preference"}}}),
      field("label_smoothing", &PreferenceSection::label_smoothing,
            {.min = 0,
             .max = 0.5,
             .max_excluded = true,
             .doc = "For \"dpo\": the probability that the answers of a pair are swapped.",
             .only_for = Requirement{"preference.loss", {"dpo"}}}),
  };
  return fields;
}

const Fields<DistillationSection>& distillation_fields() {
  static const Fields<DistillationSection> fields = {
      field("teacher", &DistillationSection::teacher,
            {.preset_text = "no teacher",
             .doc = "Teacher model, in the forms of train.from. It must have the same tokens; its "
                    "family may differ. It is not part of checkpoints.",
             .path = true}),
      field("alpha", &DistillationSection::alpha,
            {.min = 0,
             .max = 1,
             .doc = "Weight of the distillation loss; the label loss has the weight 1 - alpha.",
             .only_for = Requirement{"distillation.teacher"}}),
      field("temperature", &DistillationSection::temperature,
            {.min = 0,
             .min_excluded = true,
             .doc = "Logits of both models are divided by it, and the divergence is multiplied by "
                    "its square. Values above 1 give unlikely tokens more weight.",
             .only_for = Requirement{"distillation.teacher"}}),
      field("top_k", &DistillationSection::top_k,
            {.unit = "tokens",
             .min = 0,
             .max = 1 << 20,
             .doc = "Compare the probabilities of this many tokens, the teacher's most likely "
                    "ones, and of all other tokens together, which takes far less memory; 0 = "
                    "compare every token.",
             .only_for = Requirement{"distillation.teacher"}}),
      field("hidden_layers", &DistillationSection::hidden_layers,
            {.doc = "Pairs of layers, of the model and of the teacher, whose outputs are also "
                    "compared: [\"4:8\", \"last:last\"]. Layers are counted from 0. The outputs of "
                    "both layers of a pair must have the same width.",
             .only_for = Requirement{"distillation.teacher"}}),
      field("hidden_weight", &DistillationSection::hidden_weight,
            {.min = 0,
             .doc = "Weight of the hidden-state distance in the loss.",
             .only_for = Requirement{"distillation.hidden_layers"}}),
      field("hidden_loss", &DistillationSection::hidden_loss,
            {.choices = {"mse", "cosine"},
             .doc = "Distance of two outputs at a token: the mean of squared differences, or 1 "
                    "minus the cosine of the angle between them.",
             .only_for = Requirement{"distillation.hidden_layers"}}),
      field("dtype", &DistillationSection::dtype,
            {.choices = {"float32", "bfloat16"},
             .doc = "Compute type of the teacher.",
             .only_for = Requirement{"distillation.teacher"}}),
  };
  return fields;
}

const Fields<ScheduleSection>& schedule_fields() {
  static const Fields<ScheduleSection> fields = {
      field("kind", &ScheduleSection::kind,
            {.choices = {"cosine", "linear", "constant", "wsd", "inverse_sqrt"},
             .doc = "Decay of the learning rate after warm-up. \"wsd\" keeps the peak until the "
                    "last decay_steps."}),
      field("warmup_steps", &ScheduleSection::warmup_steps,
            {.unit = "optimizer steps",
             .min = 0,
             .max = kMaxSteps,
             .doc = "Steps over which the learning rate rises from zero to its peak."}),
      field("final_fraction", &ScheduleSection::final_fraction,
            {.min = 0,
             .max = 1,
             .doc = "Learning rate at the last step, as a fraction of the peak. Not used by "
                    "\"constant\" and \"inverse_sqrt\"."}),
      field("steps", &ScheduleSection::steps,
            {.preset_text = "train.steps",
             .unit = "optimizer steps",
             .min = 1,
             .max = kMaxSteps,
             .doc = "Steps that the schedule spans. Later steps have the learning rate 0."}),
      field("decay_steps", &ScheduleSection::decay_steps,
            {.preset_text = "a tenth of the steps",
             .unit = "optimizer steps",
             .min = 1,
             .max = kMaxSteps,
             .doc = "For \"wsd\": number of final steps over which the learning rate falls.",
             .only_for = Requirement{"schedule.kind", {"wsd"}}}),
      field("decay_shape", &ScheduleSection::decay_shape,
            {.choices = {"linear", "cosine", "sqrt"},
             .doc = "For \"wsd\": shape of the decay; \"sqrt\" is 1 - sqrt(x).",
             .only_for = Requirement{"schedule.kind", {"wsd"}}}),
      field("endpoints", &ScheduleSection::endpoints,
            {.doc = "Count steps as MaxText does: the first warm-up step has the learning rate 0, "
                    "and the last step of the schedule exactly the final one. Otherwise the first "
                    "step has 1 / warmup_steps of the peak, and the step after the last would have "
                    "the final learning rate."}),
  };
  return fields;
}

const Fields<CheckpointSection>& checkpoint_fields() {
  static const Fields<CheckpointSection> fields = {
      field("every_steps", &CheckpointSection::every_steps,
            {.unit = "optimizer steps",
             .min = 0,
             .max = kMaxSteps,
             .doc = "Steps between checkpoints; 0 = only at the end and on signals.",
             .hot = true}),
      field("keep", &CheckpointSection::keep,
            {.unit = "checkpoints",
             .min = 1,
             .max = 1 << 30,
             .doc = "Number of newest checkpoints kept on disk.",
             .hot = true}),
      field("keep_best", &CheckpointSection::keep_best,
            {.doc = "Also keep the checkpoint with the lowest validation loss, regardless of its "
                    "age, and save one after each validation that improves on all before. Its path "
                    "is RUN/checkpoints/best.",
             .hot = true}),
      field("async", &CheckpointSection::async,
            {.doc = "Write checkpoints while training continues; false: training waits for each. "
                    "docs/runs.md describes the cost.",
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
