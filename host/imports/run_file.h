// Converts a configuration of MaxText to a run file.
#pragma once

#include <string>
#include <vector>

#include "imports/configuration.h"

namespace lamina::imports {

struct Imported {
  std::string toml;   // a run file; the user must set data.train
  std::string block;  // the decoder_block
  // One line per key that was not carried over or that has another meaning here.
  std::vector<std::string> said;
};

// Converts with configs/import/maxtext.toml. Errors (exit 2), all mistakes in one error: a key that
// the table does not contain, an unsupported value, a decoder_block without a family.
Imported import_run(const Configuration& configuration);

}  // namespace lamina::imports
