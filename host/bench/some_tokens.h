// Token ids for measurements.
#pragma once

#include <cstdint>
#include <vector>

namespace lamina::bench {

// Ids like those in text: spread over the vocabulary, the same in every run.
inline std::vector<std::int32_t> some_tokens(std::int64_t count, std::int64_t vocab) {
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<std::int32_t>((i * 2654435761LL + 12345) % vocab));
  return out;
}

}  // namespace lamina::bench
