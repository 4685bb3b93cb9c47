// Keys of [lora], [preference] and [distillation].
#include "config/run_config.h"

namespace lamina::config {

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
             .min_excluded = true,
             .doc = "The output of the adapter is multiplied by alpha / rank.",
             .only_for = Requirement{"lora.rank"}}),
      field("target_modules", &LoraSection::target_modules,
            {.doc = "Matrices that get an adapter: module names as in PEFT (\"q_proj\"), ours "
                    "(\"attention.wq\"), or \"all-linear\" for all linear layers.",
             .only_for = Requirement{"lora.rank"}}),
      field("dropout", &LoraSection::dropout,
            {.min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "Dropout on the input of the adapter.",
             .only_for = Requirement{"lora.rank"}}),
      field("rslora", &LoraSection::rslora,
            {.doc = "Multiply by alpha / sqrt(rank) instead (Kalajdzievski 2023).",
             .only_for = Requirement{"lora.rank"}}),
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

}  // namespace lamina::config
