// Progress of building a token store.
#pragma once

#include <string>

#include "data/stores.h"

namespace lamina::cli {

// "tokenizing  41%  123 MB of 300 MB  42.1 MB/s  31.2M tokens  eta 4s"; `seconds` since the start.
std::string progress_line(const data::StoreProgress& progress, double seconds);

}  // namespace lamina::cli
