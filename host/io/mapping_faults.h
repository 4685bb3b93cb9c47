// Reports a mapped file that can no longer be read as an error instead of a death by SIGBUS.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/error.h"

namespace lamina::io {

// If a mapped file was truncated, or its disk fails, any access to the lost part ends the program
// with "error: <path>: ..." on stderr and the code registered with the mapping. Other faults are
// handled as before. [main thread, before mappings are made]
void report_mapping_faults();

// Registers the bytes of a mapping; see report_mapping_faults(). [any thread]
void list_mapping(std::span<const std::byte> bytes, const std::string& path, ExitCode code);
// Call it before unmapping. REQUIRES: registered. [any thread]
void unlist_mapping(std::span<const std::byte> bytes);

}  // namespace lamina::io
