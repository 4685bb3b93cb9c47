// Converts a configuration of MaxText to a run file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/error.h"

#include "imports/configuration.h"

namespace lamina::imports {

struct Imported {
  std::string toml;   // a run file; the user must set data.train
  std::string block;  // the decoder_block
  // One line per key that was not carried over or that has another meaning here.
  std::vector<std::string> said;
  // Places in `toml`, as config::parse_run(toml, kRunFile) names them, and the places of the
  // settings from which their values are computed.
  std::map<std::string, std::string> places;
};

// The name of Imported::toml in errors.
inline constexpr const char* kRunFile = "the converted run file";

// Converts with configs/import/maxtext.toml. Errors (exit 2), all mistakes in one error: a key that
// the table does not contain, a value of another type than base.yml's, an unsupported value, a
// decoder_block without a family, a value that a run file cannot have. The model is checked by the
// caller, see fail_at_settings().
Imported import_run(const Configuration& configuration);

// Throws an error about `imported.toml` with the places of the settings.
[[noreturn]] void fail_at_settings(const UserError& error, const Imported& imported);

}  // namespace lamina::imports
