// Reads quantization_config of a config.json: the compression of the tensors beside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/shape.h"

namespace lamina::io {

struct Compression {
  // The rows and columns of values in f8 that share a scale.
  struct Block {
    std::int64_t rows = 128, columns = 128;
    bool operator==(const Block&) const = default;
  };
  // A group of modules in compressed-tensors' config_groups.
  struct Group {
    std::string where, name;           // of the group in errors: file and line, path of the key
    std::vector<std::string> targets;  // names of modules, "re:" and a pattern, or classes
    std::string format;                // "pack-quantized"
    int bits = 8;
    bool is_float = false, symmetric = true, reordered = false;
    std::string strategy;         // "channel", "group", .. ; empty if the file does not name it
    std::int64_t group_size = 0;  // values with one scale; 0 if the strategy has no groups
    Block block;                  // for the strategy "block"
  };

  // "fp8", "mxfp4", "compressed-tensors", "gptq" or "awq"; empty if the file names none.
  std::string method;
  std::string where;                 // file and line of quantization_config
  std::vector<Block> blocks = {{}};  // for fp8: of the file, or of each group; never empty

  // For gptq and awq.
  int bits = 4;
  std::int64_t group_size = -1;        // values with one scale; -1: a row
  bool symmetric = false;              // every zero point is 2^(bits - 1)
  bool reordered = false;              // the groups of columns are in an index
  bool zero_points_minus_one = false;  // in files: the words of `qzeros` minus 1 in each number

  // For compressed-tensors.
  std::vector<Group> groups;
  std::vector<std::string> ignored;  // modules that are not quantised, named like targets
};

// Returns the shape of the scales of a matrix, or of stacked matrices, in such blocks.
Shape scales_shape(Shape values, const Compression::Block& block);

// Returns quantization_config of a config.json, else of its text_config; empty if there is none, or
// only null.
JsonValue quantization_config(const JsonValue& config);

// Reads `directory`/config.json, if it exists. Errors (class checkpoint): a method or a variant of
// one that lamina does not read, by its name and with an alternative.
Compression read_compression(const std::string& directory);

}  // namespace lamina::io
