// Records of TensorBoard event files: TFRecord frames around protobuf messages. Implements only the
// parts of tensorflow/core/util/event.proto that scalars need.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lamina::io {

struct EventScalar {
  std::string_view tag;
  float value;
};

// Each function returns the bytes of one record; a file is a sequence of records, beginning with
// the version. `wall_time` is in seconds since 1970.
std::string event_file_version(double wall_time);
// Readers discard earlier records with this step or a later one.
std::string event_session_start(double wall_time, std::int64_t step);
std::string event_scalars(double wall_time, std::int64_t step,
                          std::span<const EventScalar> scalars);

// CRC-32C (Castagnoli), RFC 3720 appendix B.4.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace lamina::io
