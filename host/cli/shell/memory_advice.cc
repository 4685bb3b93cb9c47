#include "cli/shell/memory_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lamina::cli {
namespace {

struct Remedy {
  std::string_view option;
  std::string_view text;
};

constexpr Remedy kRemedies[] = {
    {"ctx-size", "a shorter context (--ctx-size)"},
    {"context", "a shorter context (--context)"},
    {"beams", "fewer beams (--beams)"},
    {"batch", "fewer rows (--batch)"},
    {"tokens", "fewer tokens (--tokens)"},
    {"fit", "smaller microbatches (train.microbatch_size, which --fit finds)"},
};

}  // namespace

std::string memory_advice(const Command& command) {
  std::vector<std::string_view> texts;
  for (const Remedy& remedy : kRemedies)
    if (std::ranges::any_of(command.options,
                            [&](const Option& option) { return option.key.name == remedy.option; }))
      texts.push_back(remedy.text);
  return fmt::format("use {}{}a smaller model", fmt::join(texts, ", "),
                     texts.empty() ? "" : " or ");
}

}  // namespace lamina::cli
