#include "decoder/mtp/mtp_labels.h"

namespace lamina::decoder {

std::int64_t count_mtp_labels(const std::int32_t* labels, const std::int32_t* segments,
                              std::int64_t batch, std::int64_t tokens, std::int64_t depth,
                              bool chained) {
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t j = 0; j < depth && t + 1 + j < tokens; ++j) {
        std::int64_t at = b * tokens + t, ahead = at + 1 + j;
        if (segments && chained) at = ahead - 1;
        bool together = !segments || (segments[at] != 0 && segments[at] == segments[ahead]);
        count += labels[ahead] >= 0 && together;
      }
  return count;
}

}  // namespace lamina::decoder
