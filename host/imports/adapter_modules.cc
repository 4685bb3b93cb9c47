#include "imports/adapter_modules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "text/python_pattern.h"
#include "text/regex.h"

namespace lamina::imports {
namespace {

constexpr std::string_view kNumber = "{}";
constexpr std::int64_t kMaxLayers = 1000;  // numbers that are tried

class Matcher {
 public:
  Matcher(const std::string& pattern, const std::string& place, std::int64_t num_layers)
      : whole_(fmt::format("^(?:{})$", pattern), place, kDialect), num_layers_(num_layers) {
    text::Regex(pattern, place, kDialect);  // refuses "a)|(b", which is valid in the other one
  }

  struct Coverage {
    bool all = false, any = false;  // layers, in one spelling
  };
  Coverage coverage(const AdapterModule& module) const {
    Coverage out;
    for (const std::string& path : module.paths) {
      const std::size_t at = path.find(kNumber);
      const std::int64_t all = at == path.npos ? 1 : num_layers_;
      std::int64_t found = 0;
      for (std::int64_t layer = 0; layer < all; ++layer)
        found += contains(
            at == path.npos ? path
                            : std::string(path).replace(at, kNumber.size(), std::to_string(layer)));
      out.all = out.all || found == all;
      out.any = out.any || found > 0;
    }
    return out;
  }

 private:
  static constexpr auto kDialect = text::Regex::Dialect::fancy_regex;

  bool contains(const std::string& path) const {
    text::Regex::Match match{};
    return text::Regex::Searcher(whole_).find(path, 0, match);
  }

  text::Regex whole_;
  std::int64_t num_layers_;
};

}  // namespace

std::vector<std::string> match_adapter_modules(const std::string& pattern,
                                               const std::vector<AdapterModule>& modules,
                                               std::int64_t num_layers, const std::string& place) {
  const Matcher matcher(text::from_python(pattern), place, std::min(num_layers, kMaxLayers));
  struct Name {
    std::string name;
    Matcher::Coverage found;  // of all its modules
  };
  std::vector<Name> names;
  std::vector<std::string> possible;
  const auto refuse = [&](std::string what) {
    throw UserError(ExitCode::usage,
                    {place,
                     std::move(what),
                     {fmt::format("expected a regular expression of whole paths that matches, in "
                                  "all layers, some of: {}",
                                  fmt::join(possible, ", "))}});
  };
  for (const AdapterModule& module : modules)
    if (!module.name.empty()) possible.push_back(module.paths.front());
  for (const AdapterModule& module : modules) {
    const Matcher::Coverage found = matcher.coverage(module);
    if (module.name.empty()) {
      if (found.any)
        refuse(
            fmt::format("matches '{}', which cannot have an adapter here", module.paths.front()));
      continue;
    }
    const auto known = std::ranges::find(names, module.name, &Name::name);
    if (known == names.end()) {
      names.push_back({module.name, found});
    } else {
      known->found.all = known->found.all && found.all;
      known->found.any = known->found.any || found.any;
    }
  }
  std::vector<std::string> out;
  for (const auto& [name, found] : names) {
    if (!found.any) continue;
    if (!found.all)
      refuse(fmt::format("matches only some of the layers with '{}'; an adapter is in all of them",
                         name));
    out.push_back(name);
  }
  if (out.empty()) refuse("matches no module of this block");
  return out;
}

}  // namespace lamina::imports
