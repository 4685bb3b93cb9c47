// Families that break one rule each, and the checks that find it: the mutation matrix of
// docs/plugin_check.md.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/check.h"
#include "lamina/sdk.h"
#include "registry/family.h"

namespace lamina::conformance {

namespace sdk = lamina::sdk;

struct Config : sdk::StandardConfig {
  std::int64_t extra;
  bool flag;
  double noise;
  std::vector<double> numbers;
};
using Model = sdk::Model<Config>;

// A conforming family: window attention and a gated feed-forward.
Model right_family();
// The same, with dropout and noise that a key turns on.
Model family_that_draws();
sdk::Tensor right_block(sdk::Scope s, const Config& c, sdk::Tensor x_BTD, const sdk::Step& step);

// A Build with this body, which may use s, c, x and step.
#define LAMINA_WRONG_BLOCK(...)                                                   \
  [] {                                                                            \
    return std::vector<sdk::Block<Config>>{                                       \
        {1, "layer",                                                              \
         []([[maybe_unused]] sdk::Scope s, [[maybe_unused]] const Config& c,      \
            [[maybe_unused]] sdk::Tensor x,                                       \
            [[maybe_unused]] const sdk::Step& step) -> sdk::Tensor __VA_ARGS__}}; \
  }

// Changes the tables that the host gets, or inserts a build before the family's.
using Border = void (*)(lamina_family_t& family, lamina_block_t& block);

struct WrongFamily {
  std::string_view fault;                   // the row of the matrix
  std::vector<std::string_view> caught_by;  // all checks that fail, of `level` and below
  Model model;
  Level level = Level::quick;
  Border border = nullptr;
  std::vector<std::string_view> only = {};  // runs only these checks, because others are slow
  const sdk::CustomOp* op = nullptr;        // an op of the plugin

  friend std::ostream& operator<<(std::ostream& out, const WrongFamily& c) {
    return out << c.fault;
  }
};

std::vector<WrongFamily> wrong_families();
// Faults in wrong_borders.cc, which no plugin of the SDK can have.
std::vector<WrongFamily> wrong_borders();
// Faults in wrong_numbers.cc, of some calls, configs or updates.
std::vector<WrongFamily> wrong_numbers();
// Faults in wrong_kernels.cc, and families with right kernels.
std::vector<WrongFamily> wrong_kernels();
std::vector<WrongFamily> right_kernels();

// A family as a plugin registers it. Lives as long as the process.
struct Registered {
  const lamina_family_t* source;
  const registry::Family* family;
};
Registered register_family(const Model& model, Border border = nullptr,
                           const sdk::CustomOp* op = nullptr);

}  // namespace lamina::conformance
