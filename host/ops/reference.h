// Generates docs/ops.md: every op, from its row and its file.
#pragma once

#include <string>

namespace lamina::ops {

// Returns Markdown: the ops that plugins may emit in full, then the host's own ops in short.
std::string reference_page();

}  // namespace lamina::ops
