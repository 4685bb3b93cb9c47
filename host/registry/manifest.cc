#include "registry/manifest.h"

#include <algorithm>
#include <map>

#include "core/json.h"
#include "core/utf8.h"
#include "lamina/abi.h"
#include "registry/letters.h"

namespace lamina::registry {
namespace {

class Parser {
 public:
  Parser(const std::string& path, const JsonDocument& document)
      : path_(path), root_(document.root()) {}

  Manifest parse() const {
    Manifest out;
    out.id = plain_name(root_.at("id"), "id");
    out.version = plain_text(root_.at("version"));
    out.abi_major = number(root_.at("abi_major"));
    out.abi_built = number(root_.at("abi_built"));
    out.abi_min_host = number(root_.at("abi_min_host"));
    if (JsonValue arch = root_.find("arch")) out.arch = plain_text(arch);
    check_abi(out.abi_major, out.abi_built, out.abi_min_host, path_);
    for (JsonValue family : root_.at("families").elements()) {
      const JsonValue doc = family.find("doc");
      out.families.push_back({.name = plain_name(family.at("name"), "families.name"),
                              .doc = doc ? plain_text(doc) : "",
                              .aliases = strings(family, "aliases"),
                              .hf_model_types = strings(family, "hf_model_types"),
                              .hf_architectures = strings(family, "hf_architectures")});
    }
    if (out.families.empty()) fail("its manifest lists no family; it must list at least one");
    check_names(out.families);
    return out;
  }

 private:
  [[noreturn]] void fail(std::string what,
                         std::string advice = "build it with lamina_add_plugin()") const {
    throw PluginError({path_, std::move(what), {std::move(advice)}});
  }
  // A name or alias must choose one family.
  void check_names(const std::vector<FamilyNames>& families) const {
    std::map<std::string_view, const FamilyNames*> owners;
    const auto add = [&](const std::string& name, const FamilyNames& family) {
      if (owners.try_emplace(name, &family).first->second != &family)
        fail(fmt::format("its manifest has two families called '{}'", name),
             "give each family its own name and aliases");
    };
    for (const FamilyNames& family : families) {
      add(family.name, family);
      for (const std::string& alias : family.aliases) add(alias, family);
    }
  }
  std::string plain_name(JsonValue value, std::string_view key) const {
    const std::string_view text = value.as_string();
    if (!is_plain_name(text))
      fail(
          fmt::format("its manifest has {} = {}; expected at most {} letters, digits, '_', '-' and "
                      "'.', beginning with a letter",
                      key, value.describe(), kMaxName));
    return std::string(text);
  }
  // `plugin list` prints these texts of untrusted files.
  static std::string plain_text(JsonValue value) {
    const std::string_view text = value.as_string();
    if (find_control(text) != text.npos || text.find('\n') != text.npos)
      value.fail(fmt::format("is {}; it must not contain control characters", value.describe()));
    return std::string(text);
  }
  std::uint32_t number(JsonValue value) const {
    const std::uint64_t n = value.as_uint64();
    if (n > UINT32_MAX) value.fail(fmt::format("must be at most {}, got {}", UINT32_MAX, n));
    return static_cast<std::uint32_t>(n);
  }
  static std::vector<std::string> strings(JsonValue object, std::string_view key) {
    std::vector<std::string> out;
    if (JsonValue list = object.find(key))
      for (JsonValue item : list.elements()) out.push_back(plain_text(item));
    return out;
  }

  const std::string& path_;
  JsonValue root_;
};

}  // namespace

bool FamilyNames::is_called(std::string_view text) const {
  return name == text || std::find(aliases.begin(), aliases.end(), text) != aliases.end();
}

int FamilyNames::fit(std::string_view model_type, const std::vector<std::string>& architectures,
                     std::string_view text_model_type) const {
  const auto lists = [](const std::vector<std::string>& list, std::string_view item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  };
  const bool architecture =
      std::any_of(architectures.begin(), architectures.end(),
                  [&](const std::string& one) { return lists(hf_architectures, one); });
  return 4 * architecture + 2 * lists(hf_model_types, model_type) +
         lists(hf_model_types, text_model_type);
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  try {
    const JsonDocument document = JsonDocument::parse(
        std::string(text), path + ": manifest",
        {.code = ExitCode::plugin, .max_bytes = std::size_t{1} << 20, .positions_are_bytes = true});
    return Parser(path, document).parse();
  } catch (const UserError& malformed) {
    throw PluginError(malformed.text());
  }
}

void check_abi(std::uint32_t major, std::uint32_t built, std::uint32_t min_host,
               const std::string& path) {
  if (min_host > built)
    throw PluginError({path,
                       fmt::format("requires a host of at least {}.{}, but is built for {}.{}; "
                                   "abi_min_host must be at most abi_built",
                                   major, min_host, major, built),
                       {"build it with lamina_add_plugin()"}});
  const bool is_old = built < LAMINA_ABI_CANDIDATE;
  if (major == LAMINA_ABI_MAJOR && !is_old && min_host <= LAMINA_ABI_MINOR) return;
  if (major == LAMINA_ABI_MAJOR && !is_old)
    throw PluginError(
        {path,
         fmt::format("requires a host with plugin ABI {}.{} or later; this host has {}.{}", major,
                     min_host, LAMINA_ABI_MAJOR, LAMINA_ABI_MINOR),
         {"use a newer host, or build it with TARGET_MINOR " + std::to_string(LAMINA_ABI_MINOR)}});
  throw PluginError({path,
                     fmt::format("is built for plugin ABI {}.{}; this host has {}.{} and accepts "
                                 "plugins from {}.{}",
                                 major, built, LAMINA_ABI_MAJOR, LAMINA_ABI_MINOR, LAMINA_ABI_MAJOR,
                                 LAMINA_ABI_CANDIDATE),
                     {"rebuild it against the plugin_api of this host"}});
}

bool is_plain_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.';
         });
}

}  // namespace lamina::registry
