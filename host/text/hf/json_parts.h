// Parts of tokenizer.json have a type; each list of them is a table of the types that there are.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"
#include "core/json.h"

namespace lamina::text {

// The row of `kinds` whose name is the part's type. UserError otherwise, which names the part and
// lists what there is.
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
