// The tiny family with a config, for tests.
#pragma once

#include "registry/library.h"
#include "registry/zoo.h"

namespace lamina::registry {

inline const Family& tiny() { return load_family(Catalog::scan({.files = {zoo("tiny")}}), "tiny"); }

// [model] of a run file "run.toml", with the required keys and `more`.
inline ModelConfig configured(const Family& family, const std::string& more = "") {
  const std::string text =
      "[model]\nvocab_size = 11\nhidden_size = 8\nnum_hidden_layers = 3\n" + more;
  return family.configure(config::parse_toml(text, "run.toml", config::Origin::Kind::run_file),
                          "run.toml");
}

}  // namespace lamina::registry
