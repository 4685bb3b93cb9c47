#include "io/event_file.h"

#include <array>
#include <bit>

namespace lamina::io {
namespace {

// Field numbers of event.proto and summary.proto.
constexpr int kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5,
              kEventSessionLog = 7;
constexpr int kSummaryValue = 1, kValueTag = 1, kValueSimpleValue = 2;
constexpr int kSessionLogStatus = 1;
constexpr std::uint64_t kStart = 1;

template <typename T>
void append_little_endian(std::string& out, T bits) {
  for (std::size_t i = 0; i < sizeof bits; ++i) out += static_cast<char>(bits >> (8 * i) & 0xff);
}

// Builds one protobuf message, field by field.
class Message {
 public:
  Message& varint(int field, std::uint64_t value) {
    append_key(field, 0);
    append_varint(value);
    return *this;
  }
  Message& fixed64(int field, double value) {
    append_key(field, 1);
    append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    append_key(field, 2);
    append_varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& fixed32(int field, float value) {
    append_key(field, 5);
    append_little_endian(bytes_, std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  const std::string& text() const { return bytes_; }

 private:
  void append_key(int field, unsigned wire_type) {
    append_varint(static_cast<std::uint64_t>(field) << 3 | wire_type);
  }
  void append_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// The format rotates a checksum and adds a constant, because a CRC of bytes that contain CRCs is
// weak.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8; }

std::string record(const Message& event) {
  std::string out;
  append_little_endian(out, static_cast<std::uint64_t>(event.text().size()));
  append_little_endian(out, masked(crc32c(out)));
  out += event.text();
  append_little_endian(out, masked(crc32c(event.text())));
  return out;
}

Message event_at(double wall_time, std::int64_t step) {
  Message event;
  event.fixed64(kEventWallTime, wall_time).varint(kEventStep, static_cast<std::uint64_t>(step));
  return event;
}

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> out{};
  for (std::uint32_t byte = 0; byte < out.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
    out[byte] = crc;
  }
  return out;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::string event_file_version(double wall_time) {
  Message event;
  event.fixed64(kEventWallTime, wall_time).bytes(kEventFileVersion, "brain.Event:2");
  return record(event);
}

std::string event_session_start(double wall_time, std::int64_t step) {
  Message log;
  log.varint(kSessionLogStatus, kStart);
  return record(event_at(wall_time, step).bytes(kEventSessionLog, log.text()));
}

std::string event_scalars(double wall_time, std::int64_t step,
                          std::span<const EventScalar> scalars) {
  Message summary;
  for (const EventScalar& scalar : scalars) {
    Message value;
    value.bytes(kValueTag, scalar.tag).fixed32(kValueSimpleValue, scalar.value);
    summary.bytes(kSummaryValue, value.text());
  }
  return record(event_at(wall_time, step).bytes(kEventSummary, summary.text()));
}

}  // namespace lamina::io
