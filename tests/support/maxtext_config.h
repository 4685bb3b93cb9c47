// A golden case of MaxText as `lamina config import` reads it, and how its trees are laid out. Its
// config.json holds overrides of MaxText's base.yml.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace lamina::testing {

// How the layers' parameters are stacked in its trees.
enum class Stacking {
  plain,      // layers
  unrolled,   // layers_0, layers_1, ..
  pairs,      // two of ours to one of theirs, "_local" and "_global"
  cycles,     // layers/layers_0 .. layers_{cycle - 1}, then layers_remainder/layers_0 ..; the
              // first may be called otherwise, by cycle_folder
  two_level,  // scanned_blocks/local_layers and global_layer, then layers_remainder/local_layers
  dense_then_moe,           // dense_layers, then moe_layers
  dense_then_moe_unrolled,  // dense_layers_0, .., then moe_layers_0, ..
};

struct MaxTextConfig {
  std::string reason;                       // why nothing here computes it; empty if something does
  std::string model;                        // TOML
  std::string block;                        // their decoder_block
  config::RunConfig run;                    // all of the imported file
  std::int64_t mtp_eval_target_module = 0;  // from 1: whose acceptance is reported; 0 = none
  double balance_weight = 0;                // load_balance_loss_weight, which `model` leaves out

  Stacking stacking = Stacking::plain;
  std::int64_t cycle = 1;  // layers of a cycle
  std::string cycle_folder = "layers";
  std::int64_t dense_layers = 0;  // of those two
  // Those stand alone, dense_layers_engram_1, and cut the stacks, moe_layers_2_4.
  std::vector<std::int64_t> engram_layers;
  bool query_scaled = false;  // query kernels hold 1 / sqrt(head width)
  double norm_offset = 0;     // their norm weights less ours
  double table_scale = 1;     // their token table over ours

  // Padding sees padding, as a document of its own. Otherwise what stands there is not compared.
  bool padding_is_document = true;
  // Chunks are cut by the row, not by the document: positions are those in the row, which rotary
  // ones do not tell from those in a document.
  bool row_positions = false;
};

// `directory` holds config.json and golden.json.
MaxTextConfig maxtext_config(const std::filesystem::path& directory);

}  // namespace lamina::testing
