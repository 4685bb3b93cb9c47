// A block whose build lacks the config: the compiler's message has the form that was expected.
#include "lamina/sdk.h"

namespace {

struct Config {};

template <bool wide>
lamina::sdk::Tensor block(lamina::sdk::Scope, lamina::sdk::Tensor x, const lamina::sdk::Step&) {
  return x;
}

[[maybe_unused]] std::vector<lamina::sdk::Block<Config>> blocks() {
  return {{.id = 1, .name = "wide", .build = block<true>}};
}

}  // namespace
