// From a configuration of MaxText to a run file.
#pragma once

#include <string>
#include <vector>

#include "imports/configuration.h"

namespace lamina::imports {

struct Imported {
  std::string toml;   // a run file; data.train is for the user to name
  std::string block;  // the decoder_block
  // One line per key that was not carried over or that has another meaning here.
  std::vector<std::string> said;
};

// By configs/import/maxtext.toml. Errors (exit 2), every mistake at once: a key that the table does
// not know, a value that nothing here computes, a decoder_block without a family.
Imported import_run(const Configuration& configuration);

}  // namespace lamina::imports
