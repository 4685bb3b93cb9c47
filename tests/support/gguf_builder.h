// Small GGUF files.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::testing {

template <typename T>
std::string raw_bytes(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}
inline std::string gguf_string(std::string_view text) {
  return raw_bytes<std::uint64_t>(text.size()) + std::string(text);
}

// Types of metadata, with the format's numbers.
enum : std::uint32_t { kGgufU32 = 4, kGgufF32 = 6, kGgufBool = 7, kGgufText = 8, kGgufList = 9 };

class GgufBuilder {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;
  std::int64_t extra_tensors = 0, extra_keys = 0;  // announced in the header, but absent

  GgufBuilder& raw(std::string_view key, std::uint32_t type, const std::string& bytes) {
    keys_ += gguf_string(key) + raw_bytes(type) + bytes;
    ++num_keys_;
    return *this;
  }
  GgufBuilder& set(std::string_view key, std::string_view text) {
    return raw(key, kGgufText, gguf_string(text));
  }
  GgufBuilder& set(std::string_view key, const char* text) {
    return set(key, std::string_view(text));
  }
  GgufBuilder& set(std::string_view key, std::uint32_t number) {
    return raw(key, kGgufU32, raw_bytes(number));
  }
  GgufBuilder& set(std::string_view key, float number) {
    return raw(key, kGgufF32, raw_bytes(number));
  }
  GgufBuilder& set(std::string_view key, bool flag) {
    return raw(key, kGgufBool, raw_bytes<std::uint8_t>(flag));
  }
  GgufBuilder& set(std::string_view key, const std::vector<std::string>& texts) {
    std::string bytes = raw_bytes(kGgufText) + raw_bytes<std::uint64_t>(texts.size());
    for (const std::string& text : texts) bytes += gguf_string(text);
    return raw(key, kGgufList, bytes);
  }
  GgufBuilder& set(std::string_view key, const std::vector<float>& numbers) {
    std::string bytes = raw_bytes(kGgufF32) + raw_bytes<std::uint64_t>(numbers.size());
    for (float number : numbers) bytes += raw_bytes(number);
    return raw(key, kGgufList, bytes);
  }
  GgufBuilder& set(std::string_view key, const std::vector<std::uint32_t>& numbers) {
    std::string bytes = raw_bytes(kGgufU32) + raw_bytes<std::uint64_t>(numbers.size());
    for (std::uint32_t number : numbers) bytes += raw_bytes(number);
    return raw(key, kGgufList, bytes);
  }

  // `dims` in the file's order: the contiguous dim first.
  GgufBuilder& tensor(std::string_view name, const std::vector<std::int64_t>& dims,
                      std::uint32_t type, std::string_view bytes) {
    return tensor_at(data_.size(), name, dims, type, bytes);
  }
  GgufBuilder& tensor(std::string_view name, const std::vector<std::int64_t>& dims,
                      std::span<const float> values) {
    return tensor(name, dims, 0,
                  {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  GgufBuilder& tensor_at(std::uint64_t place, std::string_view name,
                         const std::vector<std::int64_t>& dims, std::uint32_t type,
                         std::string_view bytes) {
    tensors_ += gguf_string(name) + raw_bytes(static_cast<std::uint32_t>(dims.size()));
    for (std::int64_t dim : dims) tensors_ += raw_bytes(dim);
    tensors_ += raw_bytes(type) + raw_bytes(place);
    ++num_tensors_;
    data_ += bytes;
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }

  std::string bytes() const {
    std::string out = "GGUF" + raw_bytes(version) + raw_bytes(num_tensors_ + extra_tensors) +
                      raw_bytes(num_keys_ + extra_keys) + keys_ + tensors_;
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data_;
  }

 private:
  std::int64_t num_keys_ = 0, num_tensors_ = 0;
  std::string keys_, tensors_, data_;
};

}  // namespace lamina::testing
