#include "conformance/process/run_check.h"

#include <algorithm>
#include <deque>
#include <new>

#include "conformance/process/raw_plugin.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "registry/library.h"
#include "registry/plugin_call.h"

namespace lamina::conformance {
namespace {

Result failed(const Check& check, std::string text) {
  return {.check = &check, .outcome = Outcome::fail, .text = std::move(text)};
}
Result skipped(const Check& check, std::string text, bool blocked) {
  return {.check = &check, .outcome = Outcome::skip, .text = std::move(text), .blocked = blocked};
}

// The result for a refusal that several checks meet.
Result refused(const Check& check, const Refused& found) {
  if (found.owner() == check.id) return failed(check, found.what());
  constexpr std::size_t kMostText = 160;
  std::string text = found.what();
  if (text.size() > kMostText) {
    text.resize(std::min(kMostText, text.rfind(' ', kMostText)));
    text += " ...";
  }
  return skipped(check, fmt::format("a small model does not open, see {}: {}", found.owner(), text),
                 true);
}

// Runs `action`; its exceptions become a result.
template <typename Action>
Result guarded(const Check& check, Action&& action) {
  try {
    action();
    return {.check = &check};
  } catch (const Skipped& nothing) {
    return skipped(check, nothing.what(), false);
  } catch (const Refused& found) {
    return refused(check, found);
  } catch (const Failure& found) {
    return failed(check, found.what());
  } catch (const std::bad_alloc&) {
    const std::string call = registry::last_plugin_call();
    return failed(check, call.empty() ? "out of memory"
                                      : "out of memory; the last call before was of" + call);
  } catch (const Error& error) {
    std::string text = error.text().where + ": " + error.text().what;
    for (const std::string& note : error.text().notes) text += "\n" + note;
    return failed(check, std::move(text));
  } catch (const std::exception& thrown) {
    return failed(check, thrown.what());
  }
}

// The selected families of the plugin.
class Loaded {
 public:
  explicit Loaded(const PluginSubject& plugin) {
    registry::SearchPath search;
    search.files.push_back(plugin.file());
    const registry::Catalog catalog = registry::Catalog::scan(std::move(search));
    const std::string& only = plugin.settings().family;
    for (const registry::Family& family : registry::load_plugin(catalog.plugins().front())) {
      families_.emplace_back(plugin, family, source_of(plugin.file(), family.name()),
                             small_models(family, plugin.file(), plugin.settings().models));
    }
    std::vector<const FamilySubject*> all;
    for (const FamilySubject& family : families_) all.push_back(&family);
    for (FamilySubject& family : families_) {
      family.set_siblings(all);
      if (only.empty() || family.family().names().is_called(only)) wanted_.push_back(&family);
    }
    if (wanted_.empty())
      throw UserError(ExitCode::usage,
                      {plugin.file().string(), fmt::format("has no family '{}'", only), {}});
  }

  const std::vector<const FamilySubject*>& families() const { return wanted_; }

 private:
  std::deque<FamilySubject> families_;
  std::vector<const FamilySubject*> wanted_;
};

Result run(const Check& check, const PluginSubject& plugin) {
  if (!check.cannot.empty()) return skipped(check, std::string(check.cannot), false);
  if (check.of_file) {
    Result result = guarded(check, [&] { check.of_file(plugin.file()); });
    if (result.outcome != Outcome::pass) return result;
  }
  if (check.of_plugin) {
    Result result = guarded(check, [&] { check.of_plugin(plugin); });
    if (result.outcome != Outcome::pass) return result;
  }
  if (!check.of_family) return {.check = &check};
  std::unique_ptr<Loaded> loaded;
  try {
    loaded = std::make_unique<Loaded>(plugin);
  } catch (const PluginError& refused) {
    const bool by_rule = Refused(refused).owner() == "LOD-1";
    return skipped(
        check, fmt::format("the plugin does not load; see {}", by_rule ? "LOD-1" : "ABI-1"), true);
  }
  const std::vector<const FamilySubject*>& families = loaded->families();
  return run_check(check, families, families.size() > 1);
}

}  // namespace

Result run_check(const Check& check, const PluginSubject& plugin) {
  const Stopwatch watch;
  Result out = run(check, plugin);
  out.seconds = watch.seconds();
  return out;
}

Result run_check(const Check& check, const std::vector<const FamilySubject*>& families,
                 bool several) {
  Result out{.check = &check, .outcome = Outcome::skip};
  std::string skips;
  int others = 0;
  for (const FamilySubject* family : families) {
    Result found = guarded(check, [&] {
      try {
        check.of_family(*family);
      } catch (const PluginError& breach) {
        throw Refused(breach);
      }
    });
    out.digest = out.digest * 31 + family->digest();
    if (several && found.outcome != Outcome::pass)
      found.text = fmt::format("family '{}': {}", family->family().name(), found.text);
    if (out.outcome == Outcome::fail) {
      others += found.outcome == Outcome::fail;
    } else if (found.outcome == Outcome::fail) {
      out.outcome = Outcome::fail;
      out.text = found.text;
    } else if (found.outcome == Outcome::pass) {
      out.outcome = Outcome::pass;
    } else {
      skips += (skips.empty() ? "" : "; ") + found.text;
      out.blocked = out.blocked || found.blocked;
    }
  }
  if (others > 0) out.text += fmt::format(" (and {} more families)", others);
  if (out.outcome == Outcome::fail) return out;
  // A pass of some families does not cover the blocked ones.
  if (out.blocked) out.outcome = Outcome::skip;
  out.text = out.outcome == Outcome::pass && !skips.empty() ? "not checked: " + skips : skips;
  return out;
}

}  // namespace lamina::conformance
