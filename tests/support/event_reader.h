// Reads event files of TensorBoard by the format's definitions only: TFRecord frames, the wire
// types of protobuf, event.proto. A deviation is a failure that names its place.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lamina::testing {

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version;
  std::uint64_t session_status = 0;  // 1: START
  std::vector<std::pair<std::string, float>> scalars;
};

// The curves that TensorBoard shows: for each tag, values by step.
using EventCurves = std::map<std::string, std::map<std::int64_t, float>>;

class EventReader {
 public:
  explicit EventReader(std::string_view bytes) : rest_(bytes) {}

  std::vector<Event> events() {
    std::vector<Event> out;
    while (!rest_.empty()) out.push_back(event(record()));
    return out;
  }

 private:
  static void require(bool holds, const char* what) {
    if (!holds) throw std::runtime_error(std::string("event file: ") + what);
  }

  // Bit by bit, unlike the writer.
  static std::uint32_t masked_crc(std::string_view bytes) {
    std::uint32_t crc = 0xffffffff;
    for (const char c : bytes)
      for (int bit = 0; bit < 8; ++bit) {
        const bool odd = ((crc ^ (static_cast<unsigned char>(c) >> bit)) & 1) != 0;
        crc = (crc >> 1) ^ (odd ? 0x82f63b78u : 0u);
      }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  }

  static std::string_view take(std::string_view& from, std::size_t num_bytes) {
    require(from.size() >= num_bytes, "ends within a record");
    const std::string_view out = from.substr(0, num_bytes);
    from.remove_prefix(num_bytes);
    return out;
  }

  template <typename T>
  static T number(std::string_view& from) {
    T out;
    std::memcpy(&out, take(from, sizeof out).data(), sizeof out);
    return out;
  }

  static std::uint64_t varint(std::string_view& from) {
    std::uint64_t out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t byte = number<std::uint8_t>(from);
      out |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return out;
    }
    throw std::runtime_error("event file: a varint does not end");
  }

  std::string_view record() {
    std::string_view length = take(rest_, 8);
    require(number<std::uint32_t>(rest_) == masked_crc(length), "checksum of a length");
    const std::string_view data = take(rest_, number<std::uint64_t>(length));
    require(number<std::uint32_t>(rest_) == masked_crc(data), "checksum of a record");
    return data;
  }

  // Reads the key of a field: its number and wire type.
  static std::pair<std::uint64_t, std::uint64_t> key(std::string_view& from) {
    const std::uint64_t key = varint(from);
    return {key >> 3, key & 7};
  }
  static std::string_view message(std::string_view& from) { return take(from, varint(from)); }

  static Event event(std::string_view from) {
    using Key = std::pair<std::uint64_t, std::uint64_t>;
    Event out;
    while (!from.empty()) {
      const Key field = key(from);
      if (field == Key{1, 1}) {
        out.wall_time = number<double>(from);
      } else if (field == Key{2, 0}) {
        out.step = static_cast<std::int64_t>(varint(from));
      } else if (field == Key{3, 2}) {
        out.file_version = message(from);
      } else if (field == Key{5, 2}) {
        for (std::string_view summary = message(from); !summary.empty();) {
          require(key(summary) == Key{1, 2}, "a summary holds something else than values");
          out.scalars.push_back(scalar(message(summary)));
        }
      } else {
        require(field == Key{7, 2}, "an event has a field that was not expected");
        std::string_view log = message(from);
        require(key(log) == Key{1, 0}, "a session log holds something else than its status");
        out.session_status = varint(log);
        require(log.empty(), "a session log holds more than its status");
      }
    }
    return out;
  }

  static std::pair<std::string, float> scalar(std::string_view from) {
    using Key = std::pair<std::uint64_t, std::uint64_t>;
    require(key(from) == Key{1, 2}, "a value does not begin with its tag");
    const std::string tag(message(from));
    require(key(from) == Key{2, 5}, "a value is no float");
    const float value = number<float>(from);
    require(from.empty(), "a value holds more than a float");
    return {tag, value};
  }

  std::string_view rest_;
};

// Reads the event files of a folder as TensorBoard does: in the order of their names.
inline std::vector<std::vector<Event>> read_event_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().find("tfevents") != std::string::npos)
      paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  std::vector<std::vector<Event>> out;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    out.push_back(EventReader(bytes).events());
  }
  return out;
}

// A START drops its step and later ones, as event_accumulator.py of TensorBoard does for version 2.
inline EventCurves curves_of(const std::vector<std::vector<Event>>& files) {
  EventCurves out;
  for (const std::vector<Event>& file : files)
    for (const Event& event : file) {
      if (event.session_status == 1)
        for (auto& [tag, values] : out) values.erase(values.lower_bound(event.step), values.end());
      for (const auto& [tag, value] : event.scalars)
        if (!out[tag].emplace(event.step, value).second)
          throw std::runtime_error("event files: " + tag + " has a step twice");
    }
  return out;
}

}  // namespace lamina::testing
