// The settings of a MaxText case, as read by `lamina config import`.
#pragma once

#include <initializer_list>
#include <string>

#include "core/json.h"
#include "imports/run_file.h"

namespace lamina::testing {

// Imports base.yml with the keys of `settings` above it, objects of keys; later ones have
// precedence. If none has a decoder_block, the file of their model_name in tests/imports comes
// before them. Keys that MaxText computes from others are left out. Throws UserError as
// imports::import_run() does.
imports::Imported import_maxtext(std::initializer_list<JsonValue> settings);

// "family" and [model] of an imported run file.
std::string model_text(const imports::Imported& run);

}  // namespace lamina::testing
