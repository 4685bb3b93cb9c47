// A family built with the SDK of a later minor, for hosts of today: `fault` uses features that they
// lack.
#include "lamina/sdk.h"

namespace {

using namespace lamina::sdk;

struct Config : StandardConfig {
  std::int64_t fault;
};

void keys(Schema<Config>& key) {
  standard_keys(key, {});
  key("fault", &Config::fault, {.fallback = 0, .doc = "what the block asks for"});
}

Tensor block(Scope, const Config& c, Tensor x_BTD, const Step&) {
  using Cap = Attrs<Op::soft_cap>;
  const At at = At::current();
  if (c.fault == 1) return emit<Op::soft_cap>({x_BTD}, Cap().integer("mode", 1), at);
  if (c.fault == 2) return emit<Op::soft_cap>({x_BTD, x_BTD}, Cap().number("cap", 3), at);
  if (c.fault == 3) return later(x_BTD);
  // Uses nothing newer, although the rows have it.
  const auto [y, z] = emit_all<Op::soft_cap>(
      std::array{x_BTD, Tensor{}}, Cap().number("cap", 3).integer("mode", 0), State{}, at);
  if (z) throw Error(LAMINA_ERROR_INTERNAL, "an output that the host cannot know");
  return y;
}

std::vector<Block<Config>> blocks() { return {{1, "block", block}}; }

constexpr Model<Config> kModel = {
    .family = {.name = "newer_sdk", .doc = "what a later SDK makes"},
    .keys = keys,
    .blocks = blocks,
};

}  // namespace

LAMINA_PLUGIN("org.example.newer_sdk", "1.0", kModel)
