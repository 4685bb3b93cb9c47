// Keys of [train], [schedule] and [checkpoint].
#include "config/run_config.h"

namespace lamina::config {
namespace {

Requirement validation_data() {
  return {.key = "data.validation_fraction", .or_key = "data.validation"};
}

}  // namespace

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
      field(
          "quantize", &TrainSection::quantize,
          {.preset_text = "as in train.from",
           .doc = "Format to which frozen matrices of train.from are rounded when the run starts, "
                  "eg: \"int4\" under an adapter (QLoRA); the formats of `lamina decode "
                  "--quantize`, docs/quantisation.md. `lamina train --quantize` sets it.",
           .only_for = Requirement{"train.from"}}),
      field("quantize_rules", &TrainSection::quantize_rules,
            {.doc = "Exceptions \"PATTERN=FORMAT\" or \"PATTERN=none\", the forms of "
                    "--quantize-rule, eg: \"embedding=int8\" for a table that is frozen.",
             .only_for = Requirement{"train.quantize"}}),
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
            {.preset_text = "the rows of one device",
             .unit = "rows",
             .min = 1,
             .max = 1 << 30,
             .doc = "Rows per forward and backward pass on one device; must divide the rows of "
                    "one device: batch_size divided by their number. Lower this first when memory "
                    "is short. A run that began without it may resume with it."}),
      field("dtype", &TrainSection::dtype,
            {.choices = {"float32", "bfloat16"},
             .doc = "Type of matrix products and activations. Master weights, norms, softmax "
                    "and loss are always float32.",
             .hot = false}),
      field("scan_layers", &TrainSection::scan_layers,
            {.doc = "Compile each distinct block once and run it once per layer; false unrolls.",
             .hot = true}),
      field("remat", &TrainSection::remat,
            {.doc = "Values kept for the backward pass; others are recomputed. \"none\" keeps "
                    "everything, \"full\" only the input of each block, \"custom\" follows "
                    "[train.remat_tags]. Between them are \"minimal\", \"minimal_with_context\", "
                    "\"minimal_flash\", \"save_dot_with_context_except_mlp\", "
                    "\"save_dot_except_mlpwi\", \"save_dot_except_mlp\", \"save_qkv_proj\", "
                    "\"save_out_proj\", \"qkv_proj_offloaded\" and \"minimal_offloaded\". `lamina "
                    "plan` prints the cost of each choice.",
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
                    "average.",
             .only_for = validation_data()}),
      field(
          "clip_norm", &TrainSection::clip_norm,
          {.min = 0,
           .doc =
               "Maximum global norm of the gradient, above which it is clipped; 0 = no clipping."}),
      field("clip_each", &TrainSection::clip_each,
            {.doc = "Clip the gradient of each parameter by the parameter's own norm instead of "
                    "clipping all by the global norm.",
             .only_for = Requirement{.key = "train.clip_norm", .positive = true}}),
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
             .doc = "Window of past steps for skip_spikes; at least half of it must exist.",
             .only_for = Requirement{"train.skip_spikes"}}),
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
            {.doc = "Prompts of the samples; \"\" is the beginning of a text.",
             .hot = true,
             .only_for = Requirement{"train.sample_every_steps"}}),
      field("sample_tokens", &TrainSection::sample_tokens,
            {.unit = "tokens",
             .min = 1,
             .max = 1 << 20,
             .doc = "Maximum length of a sample, without its prompt.",
             .hot = true,
             .only_for = Requirement{"train.sample_every_steps"}}),
      field("sample_temperature", &TrainSection::sample_temperature,
            {.min = 0,
             .doc = "Temperature of samples; 0 = greedy.",
             .hot = true,
             .only_for = Requirement{"train.sample_every_steps"}}),
      field("log_every_steps", &TrainSection::log_every_steps,
            {.unit = "optimizer steps",
             .min = 1,
             .max = kMaxSteps,
             .doc = "Steps between progress lines when stderr is not a terminal.",
             .hot = true}),
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
                    "\"constant\" and \"inverse_sqrt\".",
             .only_for = Requirement{"schedule.kind", {"cosine", "linear", "wsd"}}}),
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
             .hot = true,
             .only_for = validation_data()}),
      field("async", &CheckpointSection::async,
            {.doc = "Write checkpoints while training continues; false: training waits for each. "
                    "docs/runs.md describes the cost.",
             .hot = true}),
  };
  return fields;
}

}  // namespace lamina::config
