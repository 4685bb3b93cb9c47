// Parts of tokenizer.json have a type; each list of parts is a table of the supported types.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"
#include "core/json.h"

namespace lamina::text {

// The row of `kinds` with the part's type. Otherwise throws UserError, which names the part and
// lists the supported types.
template <typename Kind, std::size_t N>
const Kind& find_kind(const Kind (&kinds)[N], const JsonValue& json, std::string_view what) {
  const JsonValue type = json.at("type");
  for (const Kind& kind : kinds)
    if (kind.name == type.as_string()) return kind;
  std::string have;
  for (const Kind& kind : kinds) have += fmt::format("{}, ", kind.name);
  type.fail(fmt::format("is {}, a {} that lamina does not have", type.describe(), what),
            {fmt::format("it has {}Sequence", have)});
}

}  // namespace lamina::text
