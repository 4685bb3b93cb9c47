// The subjects of checks: a plugin, and each of its families with small models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/check.h"
#include "conformance/subjects/model_case.h"
#include "conformance/subjects/small_models.h"
#include "core/error.h"
#include "core/fnv1a.h"
#include "decoder/model.h"
#include "registry/discovery.h"
#include "registry/family.h"

namespace lamina::conformance {

// Settings of the kit.
struct Settings {
  Level level = Level::quick;
  std::uint64_t seed = 1;
  double seconds = 0;                          // processor time of a check per family; 0: by level
  std::string family;                          // only this one; empty: all families of the plugin
  std::string device;                          // to compute on; empty: the default
  std::vector<std::filesystem::path> models;   // descriptions in addition to the plugin's
  std::vector<std::filesystem::path> goldens;  // golden cases
};

class PluginSubject {
 public:
  PluginSubject(std::filesystem::path file, Settings settings, Compute compute)
      : file_(std::move(file)), settings_(std::move(settings)), compute_(compute) {}

  const std::filesystem::path& file() const { return file_; }
  const Settings& settings() const { return settings_; }
  const Compute& compute() const { return compute_; }

 private:
  std::filesystem::path file_;
  Settings settings_;
  Compute compute_;
};

// The plugin refuses a model that the kit made, or breaks the contract while it is opened. Every
// check meets the refusal; one reports it.
class Refused : public Failure {
 public:
  explicit Refused(const ErrorText& text);
  explicit Refused(const PluginError& refused) : Refused(refused.text()) {}
  // The check that reports this.
  std::string_view owner() const { return owner_; }

 private:
  std::string_view owner_;
};

class FamilySubject {
 public:
  // `source`: the plugin's object for `family`.
  FamilySubject(const PluginSubject& plugin, const registry::Family& family,
                const lamina_family& source, SmallModels models);

  const PluginSubject& plugin() const { return plugin_; }
  const Settings& settings() const { return plugin_.settings(); }
  const registry::Family& family() const { return family_; }
  const lamina_family& source() const { return source_; }
  bool at_least(Level level) const { return settings().level >= level; }

  // Throws Refused if there is none.
  const std::vector<SmallModel>& models() const;
  // Throws Refused if the family refuses its config.
  registry::ModelConfig configure(const SmallModel& model) const;
  // Throws Refused if the plugin breaks the contract.
  decoder::Model open(const SmallModel& model, bool scan_layers = true) const;
  // Likewise, for another family with the same keys: a decorated one.
  decoder::Model open(const SmallModel& model, const registry::Family& family) const;
  ModelCase model_case(const SmallModel& model) const;
  // The models with their numbers, changed by `change` if given: at level quick only the first ones
  // of the family.
  std::vector<ModelCase> cases(
      const std::function<SmallModel(const SmallModel&)>& change = {}) const;

  // All families of the plugin, including this one: blocks with one name are one function.
  const std::vector<const FamilySubject*>& siblings() const { return siblings_; }
  void set_siblings(std::vector<const FamilySubject*> all) { siblings_ = std::move(all); }

  // Records a number that another process must find, too: see Again.
  void remember(std::uint64_t digest) const { digest_.number(digest); }
  std::uint64_t digest() const { return digest_.value(); }

 private:
  const PluginSubject& plugin_;
  const registry::Family& family_;
  const lamina_family& source_;
  SmallModels models_;
  std::vector<const FamilySubject*> siblings_;
  mutable Fnv1a digest_;
};

}  // namespace lamina::conformance
