// What was found in sources, as token stores keep it.
#pragma once

#include <vector>

#include "core/json.h"
#include "core/json_writer.h"
#include "data/tokenize.h"

namespace lamina::data {

// A list with an object for each; names are left out: they are the reader's.
void write_sources(const std::vector<TokenSource>& sources, JsonWriter& json);

// Sets everything but the names. REQUIRES: as many sources as were written.
void read_sources(const JsonValue& list, std::vector<TokenSource>& sources);

}  // namespace lamina::data
