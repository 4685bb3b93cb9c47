// The manifest: one JSON object about the plugin, written at compile time into a section of the
// library, so that the host can read it without running the plugin.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "lamina/sdk/model.h"
#include "lamina/sdk/target.h"

#define LAMINA_SDK "lamina-sdk 0.1"
#if defined(__clang__)
#define LAMINA_TOOLCHAIN "clang " __clang_version__
#else
#define LAMINA_TOOLCHAIN "gcc " __VERSION__
#endif

#if defined(__x86_64__)
#define LAMINA_ARCH "x86_64"
#elif defined(__aarch64__)
#define LAMINA_ARCH "aarch64"
#else
#error "lamina plugins are built for x86_64 or aarch64"
#endif

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

template <std::size_t count>
struct About {
  std::string_view id, version;
  std::array<Family, count> families;
};

// True for a Model; other parts of a plugin are ops.
template <class Part>
constexpr bool kIsModel = requires(const Part& part) {
  part.family;
};

template <class... Parts>
constexpr auto about(std::string_view id, std::string_view version, const Parts&... parts) {
  About<((kIsModel<Parts> ? 1 : 0) + ...)> out{id, version, {}};
  std::size_t next = 0;
  const auto add = [&](const auto& part) {
    if constexpr (kIsModel<std::remove_cvref_t<decltype(part)>>) out.families[next++] = part.family;
  };
  (add(parts), ...);
  return out;
}

template <std::size_t n>
constexpr lamina_str_t literal(const char (&text)[n]) {
  return {text, n - 1};
}

// Writes JSON; with `out` null it only counts the bytes.
class JsonText {
 public:
  constexpr explicit JsonText(char* out) : out_(out) {}
  constexpr std::size_t bytes() const { return bytes_; }

  constexpr void raw(std::string_view text) {
    for (char c : text) put(c);
  }
  constexpr void string(std::string_view text) {
    put('"');
    for (char c : text) {
      if (static_cast<unsigned char>(c) < 0x20)
        does_not_compile("a control character in a manifest's text");
      if (c == '"' || c == '\\') put('\\');
      put(c);
    }
    put('"');
  }
  constexpr void number(std::uint32_t value) {
    if (value >= 10) number(value / 10);
    put(static_cast<char>('0' + value % 10));
  }
  constexpr void field(std::string_view name, std::string_view value) {
    string(name);
    put(':');
    string(value);
  }
  constexpr void field(std::string_view name, std::uint32_t value) {
    string(name);
    put(':');
    number(value);
  }
  constexpr void field(std::string_view name, const Names& values) {
    string(name);
    raw(":[");
    for (std::uint32_t i = 0; i < values.count; ++i) {
      if (i) put(',');
      string(values.items[i]);
    }
    put(']');
  }

 private:
  constexpr void put(char c) {
    if (out_) out_[bytes_] = c;
    ++bytes_;
  }
  char* out_;
  std::size_t bytes_ = 0;
};

template <std::size_t count>
constexpr void write(JsonText& json, const About<count>& about) {
  json.raw("{");
  json.field("id", about.id);
  json.raw(",");
  json.field("version", about.version);
  json.raw(",");
  json.field("abi_major", LAMINA_ABI_MAJOR);
  json.raw(",");
  json.field("abi_built", LAMINA_ABI_MINOR);
  json.raw(",");
  json.field("abi_min_host", LAMINA_TARGET_MINOR);
  json.raw(",");
  json.field("arch", std::string_view(LAMINA_ARCH));
  json.raw(",");
  json.field("sdk", std::string_view(LAMINA_SDK));
  json.raw(",");
  json.field("toolchain", std::string_view(LAMINA_TOOLCHAIN));
  json.raw(",\"families\":[");
  for (std::size_t i = 0; i < count; ++i) {
    const Family& family = about.families[i];
    json.raw(i ? ",{" : "{");
    json.field("name", family.name);
    json.raw(",");
    json.field("doc", family.doc);
    json.raw(",");
    json.field("aliases", family.aliases);
    json.raw(",");
    json.field("hf_model_types", family.hf_model_types);
    json.raw(",");
    json.field("hf_architectures", family.hf_architectures);
    json.raw("}");
  }
  json.raw("]}");
}

template <std::size_t count>
constexpr std::size_t manifest_bytes(const About<count>& about) {
  JsonText json(nullptr);
  write(json, about);
  return json.bytes();
}

template <std::size_t bytes, std::size_t count>
constexpr std::array<char, bytes> manifest(const About<count>& about) {
  std::array<char, bytes> out{};
  JsonText json(out.data());
  write(json, about);
  return out;
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
