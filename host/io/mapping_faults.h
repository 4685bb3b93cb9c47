// What becomes of a mapped file that can no longer be read: an error, not a death by SIGBUS.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/error.h"

namespace lamina::io {

// Where a mapped file is made shorter, or its disk fails, whatever touches the lost part ends the
// program with "error: <path>: ..." on stderr and the code that the mapping was listed with.
// Faults elsewhere take the course they had before. [main thread, before mappings are made]
void report_mapping_faults();

// Lists the bytes of a mapping; see report_mapping_faults(). [any thread]
void list_mapping(std::span<const std::byte> bytes, const std::string& path, ExitCode code);
// REQUIRES: listed. Before it is unmapped. [any thread]
void unlist_mapping(std::span<const std::byte> bytes);

}  // namespace lamina::io
