// Reads and writes the counts of sources, as token stores keep them.
#pragma once

#include <vector>

#include "core/json.h"
#include "core/json_writer.h"
#include "data/tokenize.h"

namespace lamina::data {

// Writes a list with one object per source, without names, which the reader provides.
void write_sources(const std::vector<TokenSource>& sources, JsonWriter& json);

// Sets everything but the names. REQUIRES: as many sources as were written.
void read_sources(const JsonValue& list, std::vector<TokenSource>& sources);

}  // namespace lamina::data
