// Keys of [optimizer] and [[optimizer.groups]].
#include "config/run_config.h"

namespace lamina::config {

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
      field(
          "moments", &OptimizerSection::moments,
          {.choices = {"float32", "bfloat16", "8bit"},
           .doc = "Storage of moments: 4, 2 or 1 bytes per element. \"8bit\" has a scale for "
                  "every 256 elements, and is refused with \"muon\". Adafactor stores sums of rows "
                  "and columns, always in float32.",
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
                    "weight decay pause. Padding at the end of a row looks up token 0. False is "
                    "exact AdamW for every row.",
             .only_for = Requirement{"optimizer.name", {"adamw"}}}),
      field("in_backward", &OptimizerSection::in_backward,
            {.doc = "Update the parameters of a layer as soon as the backward pass has their "
                    "gradients, and then free the gradients: memory for the gradients of one layer "
                    "instead of all. Cannot be combined with gradient accumulation, clipping by "
                    "the global norm or skip_spikes, which need every gradient first.",
             .hot = true}),
      field("offload", &OptimizerSection::offload,
            {.doc = "Keep moments, and with train.dtype = \"bfloat16\" the weights in float32, in "
                    "pinned host memory: an update copies them to the GPU and back, piece by "
                    "piece. Same bits. On the CPU, which has one memory, it changes nothing.",
             .hot = true}),
      field("groups", &OptimizerSection::groups,
            {.doc = "`[[optimizer.groups]]`: parameters that are frozen or learn with different "
                    "settings. The first table that matches a parameter applies."}),
  };
  return fields;
}

}  // namespace lamina::config
