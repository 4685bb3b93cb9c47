// A golden case of MaxText as read by `lamina config import`, and the layout of its trees. Its
// config.json has overrides of MaxText's base.yml.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace lamina::testing {

// How the trees stack the parameters of layers.
enum class Stacking {
  plain,      // layers
  unrolled,   // two of our layers in one of theirs, "_local" and "_global"
  pairs,      // two of ours to one of theirs, "_local" and "_global"
  cycles,     // layers/layers_0 .. layers_{cycle - 1}, then layers_remainder/layers_0 ..; the
              // first may be called otherwise, by cycle_folder
  two_level,  // scanned_blocks/local_layers and global_layer, then layers_remainder/local_layers
  dense_then_moe,           // dense_layers, then moe_layers
  dense_then_moe_unrolled,  // dense_layers_0, .., then moe_layers_0, ..
};

struct MaxTextConfig {
  std::string reason;                       // reason that no family computes it; empty if one does
  std::string model;                        // TOML
  std::string block;                        // their decoder_block
  config::RunConfig run;                    // all of the imported file
  std::int64_t mtp_eval_target_module = 0;  // depth with reported acceptance, from 1; 0 = none
  double balance_weight = 0;                // load_balance_loss_weight, which is not in `model`

  Stacking stacking = Stacking::plain;
  std::int64_t cycle = 1;  // layers of a cycle
  std::string cycle_folder = "layers";
  std::int64_t dense_layers = 0;  // for the last two
  // Layers that are separate, dense_layers_engram_1, and cut the stacks, moe_layers_2_4.
  std::vector<std::int64_t> engram_layers;
  bool query_scaled = false;  // query kernels include 1 / sqrt(head width)
  double norm_offset = 0;     // their norm weights minus ours
  double table_scale = 1;     // their token table divided by ours

  // Padding sees padding, as a separate document. If false, padding is not compared.
  bool padding_is_document = true;
  // Chunks are cut by the row, not by the document: positions count in the row. For rotary
  // positions that makes no difference.
  bool row_positions = false;
};

// `directory` contains config.json and golden.json.
MaxTextConfig maxtext_config(const std::filesystem::path& directory);

}  // namespace lamina::testing
