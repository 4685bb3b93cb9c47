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
          "config.json files; `lamina plugin inspect NAME` lists them. The engram_* keys "
          "exist for every family.",
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
      "of a model; values without a tag are recomputed.",
      {residency}};
}

constexpr double kMaxSteps = 1e12;

}  // namespace

template <>
const Fields<ParameterGroup>& detail::table_fields() {
  static const Fields<ParameterGroup> fields = {
      field("match", &ParameterGroup::match,
            {.doc = "A pattern of the parameter's whole name: `*` stands for any characters, `?` "
                    "for one, `[0-9]` for one of these, `@(a|b)` for one of two patterns, `!(a)` "
                    "for anything else. `lamina plugin inspect` and checkpoints "
                    "show the names."}),
      field("group", &ParameterGroup::group,
            {.doc = "The group that the family's plugin gives the parameter."}),
      field("role", &ParameterGroup::role,
            {.choices = {"weight", "bias", "norm", "embedding", "head", "router", "scalar", "conv"},
             .doc = "The parameter's role. A table with several of these three means parameters "
                    "that all of them fit."}),
      field("frozen", &ParameterGroup::frozen,
            {.doc = "The parameters stay as they are: they have no gradient, no moments, no weight "
                    "decay and no updates of their layers."}),
      field("lr_scale", &ParameterGroup::lr_scale,
            {.min = 0,
             .min_excluded = true,
             .doc = "The learning rate, as a multiple of the schedule's."}),
      field("multiplier", &ParameterGroup::multiplier,
            {.min = 0,
             .min_excluded = true,
             .doc = "The optimizer treats the parameter as this number times what it updates. "
                    "Gradients are multiplied by it, also in norms, and so are updates; weight "
                    "decay is not. eg: 8.0 where another program keeps 1/8 of the matrix and "
                    "trains that."}),
      field("weight_decay", &ParameterGroup::weight_decay,
            {.min = 0, .doc = "In place of `weight_decay`, for norms and biases too."}),
      field("split_rows", &ParameterGroup::split_rows,
            {.unit = "rows",
             .min = 1,
             .doc = "For \"muon\": the matrix is several matrices of this many rows each, one "
                    "below the other, and each is orthogonalised by itself. eg: queries, keys and "
                    "values in one."}),
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
            {.doc = "Seed of initial weights, data order and dropout, each with its own stream."}),
      field("threads", &RunSection::threads,
            {.preset_text = "all available cores",
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
               "means every file in it and below; names that begin with a dot are skipped.",
           .required = true,
           .path = true}),
      field(
          "weights", &DataSection::weights,
          {.min = 0,
           .min_excluded = true,
           .doc = "How much of what is trained on comes from each entry of data.train, eg: [3, 1]. "
                  "Each goes through its own epochs. Without it every row comes once per epoch."}),
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
             .doc = "What the files hold: text; JSON objects, one per line, each with a text; "
                    "JSON objects with conversations, or with pairs of answers, written with the "
                    "model's chat template; or tokens that llm.c, nanoGPT or Megatron wrote. Files "
                    "called .gz or .zst are "
                    "unpacked. docs/data.md has all forms."}),
      field("field", &DataSection::field,
            {.doc = "The member of each object that holds its text, with form = \"jsonl\"."}),
      field("loss_on", &DataSection::loss_on,
            {.choices = {"assistant", "last", "all"},
             .doc = "With form = \"chat\", what the model learns to write: every answer, the last "
                    "answer of each conversation, or all of the conversation."}),
      field(
          "thinking", &DataSection::thinking,
          {.choices = {"keep", "drop"},
           .doc = "With form = \"chat\" and \"preference\", what becomes of thoughts in answers of "
                  "messages: they go to the template, or are left out, and the template is asked "
                  "for none."}),
      field("chat_template", &DataSection::chat_template,
            {.preset_text = "the one in data.tokenizer's directory",
             .doc = "A file with the chat template that form = \"chat\" and \"preference\" use.",
             .path = true}),
      field("bad_records", &DataSection::bad_records,
            {.choices = {"stop", "skip"},
             .doc =
                 "What is done with a line that is not a record of the form: end the run before it "
                 "begins, or leave it out and count it."}),
      field(
          "store", &DataSection::store,
          {.preset_text = "tokens, beside the run directory",
           .doc = "The folder where tokens are kept, so that runs on the same files with the same "
                  "tokenizer map them in place of tokenizing again; \"none\" holds them in memory. "
                  "Nothing in it is removed, and all of it may be.",
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
             .doc = "What ends a document: the end of a file, an empty line, or every line."}),
      field("pack", &DataSection::pack,
            {.doc = "Put several documents into one row. Attention never crosses documents. "
                    "Conversations are kept whole; what does not fit into a row is cut off."}),
      field("shuffle", &DataSection::shuffle,
            {.doc = "Visit the rows in a new random order in each epoch."}),
      field(
          "shuffle_documents", &DataSection::shuffle_documents,
          {.doc = "Put the documents of each source into a random order, by run.seed, before they "
                  "become rows, so that neighbours in a file are not neighbours in a row. The "
                  "rows of all epochs are then the same; data.validation is left as it is."}),
  };
  return fields;
}

const Fields<TrainSection>& train_fields() {
  static const Fields<TrainSection> fields = {
      field("from", &TrainSection::from,
            {.preset_text = "fresh weights",
             .doc = "Where the weights start: a published model directory, a GGUF file, a "
                    "checkpoint or a run directory. family, [model] and data.tokenizer are then "
                    "its own and may be left out; docs/finetuning.md.",
             .path = true}),
      field("fresh", &TrainSection::fresh,
            {.doc = "Tensors that train.from lacks and that start as a fresh model's, by our names "
                    "or the published ones; * stands for anything. New rows of a vocabulary start "
                    "as the mean of the old ones."}),
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
             .doc = "Type of matrix products and activations. Master weights, norms, softmax "
                    "and loss are always float32.",
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
            {.doc =
                 "Write to metrics.jsonl, for each layer, the mean, the standard deviation and "
                 "the fraction of zeros of its output, padding included, and its auxiliary losses.",
             .hot = true}),
      field("tensorboard", &TrainSection::tensorboard,
            {.doc = "Write the numbers of metrics.jsonl to event files of TensorBoard as well, in "
                    "the folder tensorboard of the run directory.",
             .hot = true}),
      field("z_loss", &TrainSection::z_loss,
            {.min = 0, .doc = "Weight of the squared log-sum-exp of the logits in the loss."}),
      field("label_smoothing", &TrainSection::label_smoothing,
            {.min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "Share of each label that goes to all tokens of the vocabulary alike. The "
                    "reported loss and that of validation remain those of the labels."}),
      field("ema", &TrainSection::ema,
            {.min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "Decay of a moving average of the weights, eg: 0.999; 0 = none. It is kept in "
                    "checkpoints; `--weights ema` decodes, evaluates and exports it."}),
      field("eval_weights", &TrainSection::eval_weights,
            {.choices = {"model", "ema"},
             .doc = "Which weights the validation loss is of: those that learn, or their moving "
                    "average."}),
      field(
          "clip_norm", &TrainSection::clip_norm,
          {.min = 0,
           .doc =
               "Maximum global norm of the gradient, above which it is clipped; 0 = no clipping."}),
      field("clip_each", &TrainSection::clip_each,
            {.doc = "Clip the gradient of each parameter by its own norm, in place of all by the "
                    "global one."}),
      field(
          "skip_spikes", &TrainSection::skip_spikes,
          {.min = 0,
           .doc = "Leave out the update of a step whose loss or gradient norm exceeds the mean of "
                  "the steps before by more than this many of their standard deviations; 0 = "
                  "never. A step "
                  "that is left out does not count for the schedule."}),
      field("spike_window", &TrainSection::spike_window,
            {.unit = "optimizer steps",
             .min = 2,
             .max = 1 << 20,
             .doc = "Steps before that skip_spikes looks at; half as many must be there."}),
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
             .doc = "How much is validated on: the first so many times batch_size of the held-out "
                    "rows, each once. The microbatch has no influence.",
             .hot = true}),
      field("sample_every_steps", &TrainSection::sample_every_steps,
            {.unit = "optimizer steps",
             .min = 0,
             .max = kMaxSteps,
             .doc = "Steps between samples: what the model makes of sample_prompts, in the log and "
                    "in metrics.jsonl, also after the last step; 0 = none. Draws depend on "
                    "run.seed; training does not depend on them.",
             .hot = true}),
      field(
          "sample_prompts", &TrainSection::sample_prompts,
          {.doc = "Texts that samples go on from; \"\" is the beginning of a text.", .hot = true}),
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
             .doc = "The update rule; docs/optimizers.md has the equations. \"muon\" is for "
                    "matrices of weights and routers, and AdamW for all other parameters."}),
      field("lr", &OptimizerSection::lr,
            {.min = 0, .min_excluded = true, .doc = "Peak learning rate."}),
      field("beta1", &OptimizerSection::beta1,
            {.min = 0, .max = 1, .max_excluded = true, .doc = "Decay of the first moment."}),
      field("beta2", &OptimizerSection::beta2,
            {.min = 0, .max = 1, .max_excluded = true, .doc = "Decay of the second moment."}),
      field("eps", &OptimizerSection::eps,
            {.min = 0,
             .min_excluded = true,
             .doc = "Added to the square root of the second moment; for \"muon\" also to the norm "
                    "that a matrix is divided by."}),
      field("eps_root", &OptimizerSection::eps_root,
            {.min = 0, .doc = "Added to the second moment, below the root."}),
      field("momentum", &OptimizerSection::momentum,
            {.preset_text = "0.95 for \"muon\", 0 for \"sgd\"",
             .min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "Decay of the momentum of \"muon\" and \"sgd\"."}),
      field("consistent_rms", &OptimizerSection::consistent_rms,
            {.min = 0,
             .min_excluded = true,
             .doc = "For \"muon\": the root mean square that updates have whatever the shape, eg: "
                    "0.2, near that of AdamW. Without it they are scaled by sqrt(max(1, rows / "
                    "columns))."}),
      field("newton_schulz_steps", &OptimizerSection::newton_schulz_steps,
            {.min = 1,
             .max = 100,
             .doc = "For \"muon\": Newton-Schulz steps with the coefficients 3.4445, -4.775 and "
                    "2.0315, which bring singular values near 1 quickly."}),
      field("newton_schulz_stable_steps", &OptimizerSection::newton_schulz_stable_steps,
            {.min = 0,
             .max = 100,
             .doc = "For \"muon\": further steps with 2, -1.5 and 0.5, which converge to 1. eg: 2 "
                    "after 8."}),
      field("moments", &OptimizerSection::moments,
            {.choices = {"float32", "bfloat16", "8bit"},
             .doc = "How moments are kept: 4, 2 or 1 bytes per element. \"8bit\" has a scale for "
                    "every 256. Adafactor's are sums of rows and columns and always float32."}),
      field("weight_decay", &OptimizerSection::weight_decay,
            {.min = 0,
             .doc = "Decoupled weight decay of matrices; norms and biases are not decayed."}),
      field("qk_clip", &OptimizerSection::qk_clip,
            {.min = 0,
             .doc = "Of latent attention: after each update the rows of query and key matrices of "
                    "a head whose largest logit in the step exceeded this are scaled down to it, "
                    "eg: 100; 0 = none. docs/optimizers.md."}),
      field("qk_clip_over", &OptimizerSection::qk_clip_over,
            {.choices = {"layer", "stack"},
             .doc = "Whose largest logit \"qk_clip\" goes by: that of each layer, or, as MaxText "
                    "with scan_layers, that of all consecutive layers of one kind."}),
      field("lazy_embeddings", &OptimizerSection::lazy_embeddings,
            {.doc = "Update only the looked-up rows of lookup-only tables (Engram's, an untied "
                    "token table): the other rows cost nothing in a step, and their moments and "
                    "weight decay pause. False is exact AdamW for every row."}),
      field("in_backward", &OptimizerSection::in_backward,
            {.doc = "Update the parameters of a layer as soon as the backward pass has their "
                    "gradients, which are then freed: memory for those of one layer instead "
                    "of all. Not with gradient accumulation, nor with clipping by the global norm "
                    "or skip_spikes, which look at every gradient first.",
             .hot = true}),
      field("groups", &OptimizerSection::groups,
            {.doc = "`[[optimizer.groups]]`: parameters that are frozen, or learn differently from "
                    "the rest. The first table that fits a parameter counts."}),
  };
  return fields;
}

const Fields<LoraSection>& lora_fields() {
  static const Fields<LoraSection> fields = {
      field("rank", &LoraSection::rank,
            {.min = 0,
             .max = 1 << 16,
             .doc = "Rank of the matrices that learn in place of the model's; 0 = no adapter: all "
                    "of the model learns."}),
      field("alpha", &LoraSection::alpha,
            {.preset_text = "lora.rank",
             .min = 0,
             .doc = "What the adapter adds is multiplied by alpha / rank."}),
      field(
          "target_modules", &LoraSection::target_modules,
          {.doc = "Matrices that get an adapter: module names as PEFT has them (\"q_proj\"), ours "
                  "(\"attention.wq\"), or \"all-linear\" for every one of the layers."}),
      field(
          "dropout", &LoraSection::dropout,
          {.min = 0, .max = 1, .max_excluded = true, .doc = "Dropout of what the adapter reads."}),
      field("rslora", &LoraSection::rslora,
            {.doc = "Multiply by alpha / sqrt(rank) instead (Kalajdzievski 2023)."}),
      field("use_dora", &LoraSection::use_dora,
            {.doc = "DoRA: the length of each row of a matrix learns by itself, the adapter "
                    "changes its direction (Liu et al. 2024)."}),
  };
  return fields;
}

const Fields<PreferenceSection>& preference_fields() {
  static const Fields<PreferenceSection> fields = {
      field("loss", &PreferenceSection::loss,
            {.choices = {"dpo", "ipo", "orpo"},
             .doc = "Which loss of pairs is minimised: docs/finetuning.md has the equations. "
                    "\"dpo\" and \"ipo\" compare the model with what it was at the start."}),
      field("beta", &PreferenceSection::beta,
            {.min = 0,
             .min_excluded = true,
             .doc = "How closely the model stays with what it was: beta of DPO, tau of IPO; for "
                    "\"orpo\" the weight of the odds ratio, lambda."}),
      field("label_smoothing", &PreferenceSection::label_smoothing,
            {.min = 0,
             .max = 0.5,
             .max_excluded = true,
             .doc = "For \"dpo\": the probability that a pair is the wrong way round."}),
  };
  return fields;
}

const Fields<DistillationSection>& distillation_fields() {
  static const Fields<DistillationSection> fields = {
      field("teacher", &DistillationSection::teacher,
            {.preset_text = "no teacher",
             .doc = "The model to learn from, as train.from names one. It needs the same tokens; "
                    "its family may be another. It is not part of checkpoints.",
             .path = true}),
      field("alpha", &DistillationSection::alpha,
            {.min = 0,
             .max = 1,
             .doc = "Share of the teacher in what is minimised; the labels have the rest."}),
      field("temperature", &DistillationSection::temperature,
            {.min = 0,
             .min_excluded = true,
             .doc = "Logits of both models are divided by it, and the divergence is multiplied by "
                    "its square. Above 1 it shows more of the tokens that are unlikely."}),
      field("top_k", &DistillationSection::top_k,
            {.unit = "tokens",
             .min = 0,
             .max = 1 << 20,
             .doc = "Compare the probabilities of this many tokens, the teacher's likeliest, and "
                    "of all others together, which takes far less memory; 0 = of every "
                    "token."}),
      field(
          "hidden_layers", &DistillationSection::hidden_layers,
          {.doc = "Pairs of layers, of the model and of the teacher, whose outputs are compared, "
                  "too: [\"4:8\", \"last:last\"]. Layers are counted from 0. Their outputs must be "
                  "as wide."}),
      field("hidden_weight", &DistillationSection::hidden_weight,
            {.min = 0, .doc = "Weight of that distance in what is minimised."}),
      field("hidden_loss", &DistillationSection::hidden_loss,
            {.choices = {"mse", "cosine"},
             .doc = "The distance of two outputs at a token: the mean of squared differences, or 1 "
                    "minus the cosine of the angle between them."}),
      field("dtype", &DistillationSection::dtype,
            {.choices = {"float32", "bfloat16"}, .doc = "Type that the teacher computes in."}),
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
             .doc = "Steps that the schedule spans. Later ones have the learning rate 0."}),
      field("decay_steps", &ScheduleSection::decay_steps,
            {.preset_text = "a tenth of the steps",
             .unit = "optimizer steps",
             .min = 1,
             .max = kMaxSteps,
             .doc = "For \"wsd\": the last steps, over which the learning rate falls."}),
      field("decay_shape", &ScheduleSection::decay_shape,
            {.choices = {"linear", "cosine", "sqrt"},
             .doc = "For \"wsd\": how it falls; \"sqrt\" is 1 - sqrt(x)."}),
      field(
          "endpoints", &ScheduleSection::endpoints,
          {.doc = "Count steps as MaxText does: the first of the warm-up has the learning rate 0, "
                  "the last of the schedule exactly the final one. Otherwise the first has 1 / "
                  "warmup_steps of the peak, and the final one would be that of the step after "
                  "the last."}),
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
            {.doc = "Also keeps the checkpoint with the lowest validation loss, however old, and "
                    "saves one after each validation that is better than all before. Its path is "
                    "RUN/checkpoints/best.",
             .hot = true}),
      field("async", &CheckpointSection::async,
            {.doc = "Writes checkpoints while training goes on; false: training waits for each. "
                    "docs/runs.md says what it takes.",
             .hot = true}),
  };
  return fields;
}

const Schema& run_schema() {
  static const Schema schema = {{
      top_section(),
      section("run", "Name, directory and seed of the run.", run_fields()),
      model_section(),
      section("data", "Training text and how it becomes rows.", data_fields()),
      section("train", "The training loop.", train_fields()),
      remat_tags_section(),
      section("lora", "A low-rank adapter over a frozen model; docs/finetuning.md.", lora_fields()),
      section("preference", "The loss of pairs, with data.form = \"preference\".",
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
