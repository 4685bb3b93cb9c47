// The keys of a MaxText case, and which of them were read: one that nobody reads is not computed.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/json.h"

namespace lamina::testing {

class MaxTextKeys {
 protected:
  // Of objects; earlier ones win.
  explicit MaxTextKeys(std::vector<JsonValue> sources) : sources_(std::move(sources)) {}

  JsonValue find(const char* key) {
    read_.insert(key);
    for (JsonValue source : sources_)
      if (JsonValue v = source.find(key)) return v;
    return {};
  }
  std::int64_t integer(const char* key, std::int64_t preset) {
    JsonValue v = find(key);
    return v ? v.as_int64() : preset;
  }
  std::vector<std::int64_t> integers(const char* key) {
    std::vector<std::int64_t> out;
    if (JsonValue list = find(key))
      for (JsonValue element : list.elements()) out.push_back(element.as_int64());
    return out;
  }
  double number(const char* key, double preset) {
    JsonValue v = find(key);
    return v ? v.as_double() : preset;
  }
  bool flag(const char* key, bool preset) {
    JsonValue v = find(key);
    return v ? v.as_bool() : preset;
  }
  std::string text(const char* key, const char* preset) {
    JsonValue v = find(key);
    return std::string(v ? v.as_string() : preset);
  }

  // What is wrong with the first key that was not read; empty if all were.
  std::string complaint() const {
    for (JsonValue source : sources_)
      for (auto [key, value] : source.members())
        if (!read_.contains(std::string(key)))
          return fmt::format("has key '{}', which nothing here computes", key);
    return {};
  }

  std::set<std::string> read_;  // also keys that say nothing to us

 private:
  std::vector<JsonValue> sources_;
};

}  // namespace lamina::testing
