// Deviations of single publishers' files from all others, in one place: the code that reads these
// files uses this table and knows no publisher.
//
// Plugins cannot provide them: most are needed before the family is known (config.json names it),
// and the rest differ between checkpoints of one family.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lamina::publishers {

// Objects of config.json around `text_config`, the object with the keys of the language model in
// multimodal models.
inline constexpr std::string_view kTextConfigHolders[] = {
    "thinker_config",  // Qwen Omni
};

// Keys of config.json with the ids of placeholder tokens for images, videos and sounds.
inline constexpr std::string_view kPlaceholderKeys[] = {
    "image_token_id",     // Gemma 4, Qwen VL
    "image_token_index",  // Gemma 3, Llama 4, Qwen Omni
    "video_token_id",    "video_token_index", "audio_token_id", "audio_token_index",
};

// Suffix of the names of architectures that have encoders beside the language model.
inline constexpr std::string_view kArchitectureWithEncoders = "ForConditionalGeneration";

// Names of PyTorch's wrapper modules inside tensor names: anywhere in a name, or (the outer one)
// only at its start.
inline constexpr std::string_view kWrapperNames[] = {
    "_orig_mod.",                   // torch.compile
    "_fsdp_wrapped_module.",        // FullyShardedDataParallel
    "_checkpoint_wrapped_module.",  // activation checkpointing
};
inline constexpr std::string_view kOuterWrapperName = "module.";  // DistributedDataParallel

// PEFT's adapters: names of tensors and files.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";
inline constexpr std::string_view kAdapterDown = ".lora_A.weight", kAdapterUp = ".lora_B.weight",
                                  kAdapterMagnitude = ".lora_magnitude_vector";
inline constexpr std::string_view kAdapterConfig = "adapter_config.json";
inline constexpr std::string_view kAdapterStem = "adapter_model";

// Folders of the language model's layers in multimodal models: the one in files, and the one in the
// classes of transformers since 4.52. Models that are not listed use the same folder in both.
inline constexpr std::string_view kLanguageModelFolders[] = {"language_model.model.",
                                                             "model.language_model."};

// The heads beside these folders, likewise.
inline constexpr std::string_view kLanguageModelHeads[] = {"language_model.lm_head", "lm_head"};

// The key of config.json whose object describes compressed weights; null says that they are plain.
inline constexpr std::string_view kQuantizationConfig = "quantization_config";

// Keys of config.json that describe the compression of weights; an uncompressed checkpoint has none
// of them.
inline constexpr std::string_view kCompressionKeys[] = {
    kQuantizationConfig,
    "expert_dtype",  // DeepSeek V4
};

// The quant_method of compressed-tensors in quantization_config.
inline constexpr std::string_view kCompressedTensors = "compressed-tensors";

// The module of the head in the classes of transformers, also where it is the tied embedding.
inline constexpr std::string_view kHeadModule = "lm_head";

// The key of config.json that adds the routers' balance loss to the training loss, in Hugging
// Face's transformers.
inline constexpr std::string_view kAddBalanceLoss = "output_router_logits";

// Suffix of a weight's name, and the suffix of its scales that replaces it.
struct ScalesName {
  std::string_view weight, scales;
};

// For values in f8, and for pairs of FP4 values with separate rows. The last one is the usual one.
inline constexpr ScalesName kScalesNames[] = {
    {".weight", ".scale"},  // DeepSeek V4
    {"", "_scale"},         // AutoFP8, compressed-tensors
    {"", "_scale_inv"},     // DeepSeek V3 and its followers
};

// Scales of activations beside a weight in f8, which do not affect its values.
inline constexpr ScalesName kActivationScalesNames[] = {
    {".weight", ".activation_scale"},  // transformers' FP8
    {".weight", ".input_scale"},       // AutoFP8, compressed-tensors
    {"", "_activation_scale"},         // for several matrices in one tensor
};

// Suffixes of the tensors that one quantised weight consists of. Its name ends in ".weight".
struct PackedNames {
  std::string_view values, scales, zero_points, group_index, shape, global_scale;
};
inline constexpr PackedNames kCompressedTensorsNames = {
    ".weight_packed", ".weight_scale", ".weight_zero_point",
    ".weight_g_idx",  ".weight_shape", ".weight_global_scale"};
// int-quantized weights of compressed-tensors, with a byte for each value.
inline constexpr PackedNames kCompressedBytesNames = {
    ".weight", ".weight_scale", ".weight_zero_point", ".weight_g_idx", {}, {}};
inline constexpr PackedNames kGptqNames = {".qweight", ".scales", ".qzeros", ".g_idx", {}, {}};

// Suffixes of the scales of a module's activations, queries, keys and values: without effect on
// weights.
inline constexpr std::string_view kActivationSuffixes[] = {
    ".input_scale",       ".input_zero_point", ".input_global_scale", ".output_scale",
    ".output_zero_point", ".q_scale",          ".q_zero_point",       ".k_scale",
    ".k_zero_point",      ".v_scale",          ".v_zero_point",
};

// For values in MXFP4, both tensors in blocks of 32: gpt-oss. Transformers 5.23 also uses the first
// name for floating-point values that it has converted from blocks; they then have the form of the
// tensor without the suffix.
inline constexpr ScalesName kMxfp4Name = {"_blocks", "_scales"};

// Returns whether a key of config.json is text_config or one of kTextConfigHolders.
bool is_text_config(std::string_view key);

// Returns whether a key is one of kCompressionKeys.
bool is_compression_key(std::string_view key);

// Returns whether a name ends in one of kActivationSuffixes.
bool is_activation_scale(std::string_view name);

// Returns the name without wrappers.
std::string without_wrappers(std::string_view name);

// Returns the name in the classes of transformers for the name of a module in files, and the
// reverse, by kLanguageModelFolders and kLanguageModelHeads. Other names are returned unchanged.
std::string module_in_classes(std::string_view module);
std::string module_in_files(std::string_view module);

// Returns "y.scale" for "y.weight". REQUIRES: the weight's name ends as in the row.
std::string scales_name(std::string_view weight, const ScalesName& row);
// Returns the names for each matching row of kScalesNames, in order. Never empty.
std::vector<std::string> scales_names(std::string_view weight);

}  // namespace lamina::publishers
