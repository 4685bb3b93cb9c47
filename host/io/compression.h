// Reads quantization_config of a config.json: the compression of the tensors beside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace lamina::io {

struct Compression {
  // A group of modules in compressed-tensors' config_groups.
  struct Group {
    std::string where, name;           // of the group in errors: file and line, path of the key
    std::vector<std::string> targets;  // names of modules, "re:" and a pattern, or classes
    std::string format;                // "pack-quantized"
    int bits = 8;
    bool is_float = false, symmetric = true, reordered = false;
    std::string strategy;         // "channel", "group", .. ; empty if the file does not name it
    std::int64_t group_size = 0;  // values with one scale; 0 if the strategy has no groups
  };

  // "fp8", "mxfp4", "compressed-tensors", "gptq" or "awq"; empty if the file names none.
  std::string method;
  std::string where;                                   // file and line of quantization_config
  std::int64_t block_rows = 128, block_columns = 128;  // for fp8: values with one scale

  // For gptq and awq.
  int bits = 4;
  std::int64_t group_size = -1;  // values with one scale; -1: a row
  bool symmetric = false;        // every zero point is 2^(bits - 1)
  bool reordered = false;        // the groups of columns are in an index
  int zero_offset = 0;           // is added to stored zero points, modulo 2^bits

  // For compressed-tensors.
  std::vector<Group> groups;
  std::vector<std::string> ignored;  // modules that are not quantised, named like targets
};

// Returns quantization_config of a config.json, also of its text_config; empty if there is none.
JsonValue quantization_config(const JsonValue& config);

// Reads `directory`/config.json, if it exists. Errors (class checkpoint): a method or a variant of
// one that lamina does not read, by its name and with an alternative.
Compression read_compression(const std::string& directory);

}  // namespace lamina::io
