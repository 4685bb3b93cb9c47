// The directory that a command about checkpoints writes: its options, and a note about its
// tokenizer.
#pragma once

#include <optional>
#include <string>

#include "cli/shell/command.h"
#include "core/dtype.h"

namespace lamina::cli {

// --to DIR.
Option to_option();

// --dtype TYPE, the type of its tensors; empty if it was not given.
Option stored_type_option(std::string doc);
std::optional<DType> stored_type(const Arguments& a);

// Logs a note if the tokenizer of the written directory is one that only lamina has.
void note_tokenizer(const std::string& to);

}  // namespace lamina::cli
