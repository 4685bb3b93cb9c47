// What the files of single publishers do differently from all others, in one place: the code that
// reads them asks here and knows no publisher.
//
// None of it is said by plugins: most is asked before the family is known (config.json names it),
// the rest differs between checkpoints of one family.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lamina::publishers {

// Objects of config.json around `text_config`, the object that multimodal models keep the keys of
// the language model in.
inline constexpr std::string_view kTextConfigHolders[] = {
    "thinker_config",  // Qwen Omni
};

// Keys of config.json with the ids of tokens that stand for images, videos and sounds.
inline constexpr std::string_view kPlaceholderKeys[] = {
    "image_token_id",     // Gemma 4, Qwen VL
    "image_token_index",  // Gemma 3, Llama 4, Qwen Omni
    "video_token_id",    "video_token_index", "audio_token_id", "audio_token_index",
};

// Names of PyTorch's wrapper modules inside names of tensors: anywhere in a name, or (the outer
// one) only in front of it.
inline constexpr std::string_view kWrapperNames[] = {
    "_orig_mod.",                   // torch.compile
    "_fsdp_wrapped_module.",        // FullyShardedDataParallel
    "_checkpoint_wrapped_module.",  // activation checkpointing
};
inline constexpr std::string_view kOuterWrapperName = "module.";  // DistributedDataParallel

// Adapters of PEFT: names of tensors, and of files.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";
inline constexpr std::string_view kAdapterDown = ".lora_A.weight", kAdapterUp = ".lora_B.weight",
                                  kAdapterMagnitude = ".lora_magnitude_vector";
inline constexpr std::string_view kAdapterConfig = "adapter_config.json";
inline constexpr std::string_view kAdapterStem = "adapter_model";

// Folders of the language model's layers in multimodal models: the one in files, and the one in the
// classes of transformers since 4.52. Models that are not listed use the same folder in both.
inline constexpr std::string_view kLanguageModelFolders[] = {"language_model.model.",
                                                             "model.language_model."};

// Keys of config.json that say how weights are compressed: a checkpoint that is not has none.
inline constexpr std::string_view kCompressionKeys[] = {
    "quantization_config",
    "expert_dtype",  // DeepSeek V4
};

// The key of config.json that adds the routers' balance loss to what is trained, in the models of
// Hugging Face's transformers.
inline constexpr std::string_view kAddBalanceLoss = "output_router_logits";

// What the name of a weight ends with, and its scales have instead.
struct ScalesName {
  std::string_view weight, scales;
};

// Of values in f8, and of pairs of FP4 values with rows of their own. The last is the usual one.
inline constexpr ScalesName kScalesNames[] = {
    {".weight", ".scale"},  // DeepSeek V4
    {"", "_scale"},         // AutoFP8, compressed-tensors
    {"", "_scale_inv"},     // DeepSeek V3, and all who follow it
};

// Scales of activations, beside a weight in f8: they have no effect on its values.
inline constexpr ScalesName kActivationScalesNames[] = {
    {".weight", ".activation_scale"},  // transformers' FP8
    {".weight", ".input_scale"},       // AutoFP8, compressed-tensors
    {"", "_activation_scale"},         // of several matrices in one tensor
};

// Of values in MXFP4, both tensors in blocks of 32: gpt-oss. Transformers 5.23 also gives the first
// name to floating-point values that it took out of blocks; then they have the form of those that
// the family calls by the name without it.
inline constexpr ScalesName kMxfp4Name = {"_blocks", "_scales"};

// The name without wrappers.
std::string without_wrappers(std::string_view name);

// "y.scale" for "y.weight"; REQUIRES: the weight's name ends as the row says.
std::string scales_name(std::string_view weight, const ScalesName& row);
// By each row of kScalesNames that fits, in order. Never empty.
std::vector<std::string> scales_names(std::string_view weight);

}  // namespace lamina::publishers
