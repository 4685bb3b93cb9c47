// Small models with another value of one key: values that a plugin keeps from the first config,
// keys without effect and faults behind a flag show in them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conformance/subjects/small_models.h"
#include "conformance/subjects/subject.h"

namespace lamina::conformance {

// The keys that are changed.
enum class Changed {
  switches,    // flags and strings with choices, to every other value
  everything,  // also numbers and lists, to the first other value that the family accepts
};

struct Variant {
  SmallModel model;  // its name has the change: "mistral, tie_word_embeddings = true"
  const registry::ModelKey* key = nullptr;
};

// Values other than `now` for a key, within its limits.
std::vector<config::Value> other_values(const registry::ModelKey& key, const config::Value* now);

// True if the family accepts the config and has a plan for it: its blocks may still refuse it.
bool is_accepted(const registry::Family& family, const config::ModelSource& source);

// The variants of `small` whose config and plan the family accepts; they need not open.
std::vector<Variant> variants_of(const FamilySubject& subject, const SmallModel& small,
                                 Changed which);

// Models of the family with another flag or choice that changes the model: each once, in the first
// small model in which it has an effect.
std::vector<SmallModel> switched_models(const FamilySubject& subject);

// Returns the model without flags of its description that let an op see other documents (`across`):
// a model with such a flag shows nothing else by mixing them.
SmallModel with_documents_apart(const FamilySubject& subject, const SmallModel& small);

// The model; nothing if the plugin or the host refuses it.
std::optional<decoder::Model> open_if_accepted(const FamilySubject& subject,
                                               const SmallModel& model);

// The fingerprint of a model; nothing if it is refused.
std::optional<std::uint64_t> fingerprint_of(const FamilySubject& subject, const SmallModel& model);

}  // namespace lamina::conformance
