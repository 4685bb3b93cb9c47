// GRD-3: kernels of custom ops against their lowerings, in training and decoding of small models.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "conformance/check.h"
#include "conformance/checks/checks.h"
#include "conformance/numbers/kernel_comparison.h"
#include "conformance/process/capture.h"
#include "conformance/subjects/fingerprint.h"
#include "conformance/subjects/odd_configs.h"
#include "conformance/subjects/rows.h"
#include "conformance/subjects/subject.h"
#include "conformance/subjects/variants.h"
#include "core/round_up.h"
#include "decode/session.h"
#include "lamina/names.h"
#include "ops/custom.h"
#include "registry/custom_ops.h"
#include "train/loop/train_step.h"

namespace lamina::conformance {
namespace {

// Two of them are 514 rows: two blocks and a rest for a kernel with blocks of 256.
constexpr std::int64_t kLongRow = 257;
// A row beyond blocks of 1024 tokens.
constexpr std::int64_t kVeryLongRow = 1031;
// More rows of tokens than a 16-bit counter has, in no whole blocks.
constexpr std::int64_t kManyRows = 32768 + 77;
// Widths beyond blocks of 1024 elements and beyond a 16-bit counter, prime.
constexpr std::int64_t kWide[] = {1031, 32771};
// A wider model takes too long.
constexpr std::int64_t kMostParameters = 1 << 24;

// A forward and a backward pass.
void train(const ModelCase& c, const decoder::Model& model, const program::Rows& rows, DType dtype,
           const Backend& backend) {
  const auto state = c.load_state(model, dtype);
  train::TrainStepOptions options{.shape = {rows.batch, rows.tokens, dtype},
                                  .features = train::all_losses(!model.length_dependent_from())};
  options.seed = 11;
  train::TrainStep step(model, *state, options, {}, backend);
  const program::Microbatch batch = rows.microbatch();
  step.gradients(std::span(&batch, 1), 3);
}

// Odd batches and lengths, also with several documents in a row.
void train(const ModelCase& c, const decoder::Model& model, DType dtype, const Backend& backend) {
  const std::int64_t tokens = row_tokens(model);
  std::vector<program::Rows> all = {random_rows(model, 1, 1), random_rows(model, 5, 7)};
  if (has_positions(model, kLongRow)) all.push_back(random_rows(model, 2, kLongRow));
  if (!model.length_dependent_from()) {
    // Documents end elsewhere in each row, and one begins late.
    const auto documents = [&](std::int64_t first, std::int64_t second, std::int64_t length) {
      return pack({random_rows(model, 1, first, 3), random_rows(model, 1, second, 4)}, length);
    };
    all.push_back(stacked({documents(tokens / 2, tokens / 3, tokens),
                           documents(tokens / 3, tokens / 2, tokens),
                           documents(tokens - tokens / 4, tokens / 4, tokens)}));
    constexpr std::int64_t kLate = 331;
    if (has_positions(model, kLate)) all.push_back(documents(kLate, 40, kLate + 50));
  }
  for (const program::Rows& rows : all) train(c, model, rows, dtype, backend);
}

void train_very_long_row(const ModelCase& c, const decoder::Model& model, const Backend& backend) {
  if (has_positions(model, kVeryLongRow))
    train(c, model, random_rows(model, 1, kVeryLongRow), DType::f32, backend);
}

// Very many rows, in a model that is small enough.
void train_many_rows(const ModelCase& c, const decoder::Model& model, const Backend& backend) {
  constexpr std::int64_t kMostWidth = 512;
  if (model.vocab_size() > kMostWidth || model.layer_width() > kMostWidth) return;
  const std::int64_t tokens = row_tokens(model);
  train(c, model, random_rows(model, (kManyRows + tokens - 1) / tokens, tokens), DType::f32,
        backend);
}

// A prompt in uneven pieces, then single tokens.
void decode(const ModelCase& c, const decoder::Model& model, DType dtype, const Backend& backend) {
  const weights::Weights weights = c.load(model, dtype);
  const program::Rows rows = random_rows(model, 1, row_tokens(model));
  const std::int64_t call_tokens = model.length_dependent_from() ? rows.tokens : 5;
  decode::Session session(
      model, weights.pointers(),
      {.batch = 1, .capacity = rows.tokens, .call_tokens = call_tokens, .dtype = dtype}, backend);
  const std::span<const std::int32_t> ids(rows.ids);
  const std::size_t prompt = std::min<std::size_t>(ids.size(), 13);
  session.append(ids.first(prompt));
  for (std::size_t i = prompt; i < std::min(ids.size(), prompt + 2); ++i)
    session.append(ids.subspan(i, 1));
}

// Many sequences with prompts of different lengths: calls with padding. One then begins again.
void decode_ragged(const ModelCase& c, const decoder::Model& model, DType dtype,
                   const Backend& backend) {
  constexpr std::size_t kRows = 33, kCapacity = 8, kAgain = 12;
  if (model.length_dependent_from() || !has_positions(model, kCapacity)) return;
  const weights::Weights weights = c.load(model, dtype);
  decode::Session session(model, weights.pointers(),
                          {.batch = kRows, .capacity = kCapacity, .call_tokens = 5, .dtype = dtype},
                          backend);
  const program::Rows rows = random_rows(model, kRows, kCapacity);
  std::array<std::size_t, kRows> used{};
  const auto append = [&](auto&& tokens_of) {
    std::vector<std::span<const std::int32_t>> pieces;
    for (std::size_t b = 0; b < kRows; ++b) {
      const std::size_t count = tokens_of(b);
      pieces.push_back(std::span(rows.ids).subspan(b * kCapacity + used[b], count));
      used[b] += count;
    }
    session.append(pieces);
  };
  append([](std::size_t b) { return 1 + (b + 4) % 5; });
  append([](std::size_t b) { return std::size_t{b % 3 == 1 ? 0U : 1U}; });
  session.reset(kAgain);
  used[kAgain] = 0;
  append([](std::size_t b) { return std::size_t{b == kAgain ? 3U : b % 2}; });
}

// The custom ops of a graph: names and attributes, and the widths of their first inputs.
struct CustomUses {
  std::set<std::string> calls;
  std::map<std::string, std::set<std::int64_t>> widths;
};

std::string text_of(const Node& node) {
  std::string out = node.op->name;
  for (const AttrValue& attr : node.attrs) {
    if (const auto* i = std::get_if<std::int64_t>(&attr)) out += fmt::format(" {}", *i);
    if (const auto* d = std::get_if<double>(&attr)) out += fmt::format(" {}", *d);
    if (const auto* s = std::get_if<std::string>(&attr)) out += " " + *s;
    if (const auto* l = std::get_if<std::vector<std::int64_t>>(&attr))
      out += fmt::format(" {}", fmt::join(*l, ","));
    if (const auto* l = std::get_if<std::vector<double>>(&attr))
      out += fmt::format(" {}", fmt::join(*l, ","));
  }
  return out;
}

CustomUses custom_uses(const decoder::Model& model) {
  CustomUses out;
  for_each_graph(model.loss_graph({2, 5}, train::all_losses()).graph, [&](const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      if (!ops::is_custom(*node.op)) continue;
      out.calls.insert(text_of(node));
      const Type& first = graph.type(node.inputs[0]);
      if (first.ndim() > 0) out.widths[node.op->name].insert(first.dim(-1));
    }
  });
  return out;
}

// Models whose ops have attributes or odd widths that the small model does not have. Kernels with
// vectors have a rest for widths that are no multiple of eight.
std::vector<SmallModel> other_uses(const FamilySubject& subject, const SmallModel& small) {
  CustomUses known = custom_uses(subject.open(small));
  std::vector<SmallModel> out;
  const auto add_if_new = [&](const SmallModel& changed) {
    CustomUses uses;
    try {
      uses = custom_uses(subject.open(changed));
    } catch (const Refused&) {
      return;
    }
    bool is_new = false;
    for (const std::string& call : uses.calls) is_new = known.calls.insert(call).second || is_new;
    for (const auto& [op, widths] : uses.widths) {
      for (const std::int64_t block : {2, 8}) {
        const auto has_rest = [&](std::int64_t width) { return width % block != 0; };
        is_new = is_new || (std::ranges::none_of(known.widths[op], has_rest) &&
                            std::ranges::any_of(widths, has_rest));
      }
      known.widths[op].insert(widths.begin(), widths.end());
    }
    if (is_new) out.push_back(changed);
  };
  for (const Variant& variant : variants_of(subject, small, Changed::everything))
    add_if_new(variant.model);
  const registry::ModelConfig config = subject.configure(small);
  for (const registry::ModelKey& key : subject.family().keys()) {
    if (key.ignored || key.host || key.json_only) continue;
    const config::Entry* entry = config.values().find(key.key.name);
    const auto* now = entry ? entry->value.get_if<std::int64_t>() : nullptr;
    for (std::int64_t more = 2; now && more <= 9; ++more) {
      const config::Value value(*now + more);
      const SmallModel changed{fmt::format("{}, {} = {}", small.name, key.key.name, *now + more),
                               with_value(small.source, key.key.name, value)};
      if (is_accepted(subject.family(), changed.source)) add_if_new(changed);
    }
  }
  return out;
}

// Returns the model with another value of the key; nothing if it is refused, or too large.
std::optional<SmallModel> with_size(const FamilySubject& subject, const SmallModel& small,
                                    const std::string& key, std::int64_t size) {
  SmallModel out{fmt::format("{}, {} = {}", small.name, key, size),
                 with_value(small.source, key, config::Value(size))};
  const std::optional<decoder::Model> model = open_if_accepted(subject, out);
  if (!model || model->parameters().num_elements() > kMostParameters) return {};
  return out;
}

// The width of the first input of each custom op, where it is widest.
std::map<std::string, std::int64_t> widest_uses(const FamilySubject& subject,
                                                const SmallModel& small) {
  std::map<std::string, std::int64_t> out;
  for (const auto& [op, widths] : custom_uses(subject.open(small)).widths)
    out[op] = *widths.rbegin();
  return out;
}

// Models in which a large value of one key makes custom ops as wide as kWide: each op once, for
// each of these widths.
std::vector<SmallModel> wide_uses(const FamilySubject& subject, const SmallModel& small) {
  const auto widths = widest_uses(subject, small);
  auto reached = widths;
  std::vector<SmallModel> out;
  const auto add_with = [&](const std::string& key, std::int64_t size) {
    const std::optional<SmallModel> wide = with_size(subject, small, key, size);
    if (!wide) return;
    for (const auto& [op, width] : widest_uses(subject, *wide))
      reached[op] = std::max(reached[op], width);
    out.push_back(*wide);
  };
  const registry::ModelConfig config = subject.configure(small);
  for (const registry::ModelKey& key : subject.family().keys()) {
    const std::string& name = key.key.name;
    if (key.ignored || key.host || key.json_only || name == LAMINA_CONFIG_NUM_LAYERS) continue;
    const config::Entry* entry = config.values().find(name);
    const auto* now = entry ? entry->value.get_if<std::int64_t>() : nullptr;
    if (!now || *now < 1) continue;
    const std::optional<SmallModel> doubled = with_size(subject, small, name, 2 * *now);
    if (!doubled) continue;
    for (const auto& [op, more] : widest_uses(subject, *doubled)) {
      const auto width = widths.find(op);
      if (width == widths.end() || more <= width->second) continue;
      const double per_unit = static_cast<double>(more - width->second) / static_cast<double>(*now);
      for (const std::int64_t wanted : kWide) {
        const auto least = *now + static_cast<std::int64_t>(std::ceil(
                                      static_cast<double>(wanted - width->second) / per_unit));
        // Some sizes must be a multiple of another one.
        for (const std::int64_t size : {least, round_up(least, *now)})
          if (reached[op] < wanted) add_with(name, size);
      }
    }
  }
  return out;
}

}  // namespace

void check_kernels(const FamilySubject& subject) {
  std::set<std::string> wanted;
  const Backend& device = *subject.plugin().compute().backend;
  const bool on_gpu = !device.reaches(MemoryKind::host);
  const auto has_kernel = [&](const ops::CustomOp& op) {
    return on_gpu ? op.gpu_kernel && !op.gpu_kernel->images().empty() : op.kernel != nullptr;
  };
  const auto want = [&](const ops::CustomOp& op) {
    if (has_kernel(op)) wanted.insert(op.name);
    if (op.gradient && has_kernel(*op.gradient)) wanted.insert(op.gradient->name);
  };
  for (const auto& custom : subject.family().custom_ops()) want(custom->op);
  if (wanted.empty()) skip("the plugin has no kernels{}", on_gpu ? " for this device" : "");
  // Ops of a plugin with several families need not belong to this one.
  if (subject.siblings().size() > 1) wanted.clear();
  const ComparingBackend backend(subject.plugin().compute());
  const Capture output(STDOUT_FILENO);
  const std::vector<ModelCase> cases = subject.cases();
  for (std::size_t number = 0; number < cases.size(); ++number) {
    const ModelCase& c = cases[number];
    const decoder::Model model = c.open(true);
    for_each_graph(model.loss_graph({2, 5}, train::all_losses()).graph, [&](const Graph& graph) {
      for (const Node& node : graph.nodes())
        if (ops::is_custom(*node.op)) want(ops::custom_of(*node.op));
    });
    const auto in = [&](DType dtype, const std::string& name, auto&& run) {
      try {
        run(dtype);
      } catch (const Failure& found) {
        fail("model '{}', {}: {}", name, lamina::name(dtype), found.what());
      }
    };
    for (const DType dtype : {DType::f32, DType::bf16})
      in(dtype, c.name, [&](DType d) {
        train(c, model, d, backend);
        if (!model.is_autoregressive()) return;
        decode(c, model, d, backend);
        decode_ragged(c, model, d, backend);
      });
    if (custom_uses(model).calls.empty()) continue;
    // Training on many rows takes too long on the emulated GPU.
    if (!on_gpu) in(DType::f32, c.name, [&](DType) { train_many_rows(c, model, backend); });
    in(DType::f32, c.name, [&](DType) { train_very_long_row(c, model, backend); });
    const auto train_other = [&](const SmallModel& other, std::int64_t batch, std::int64_t tokens) {
      const ModelCase changed = subject.model_case(other);
      const decoder::Model opened = changed.open(true);
      in(DType::f32, other.name,
         [&](DType d) { train(changed, opened, random_rows(opened, batch, tokens), d, backend); });
    };
    const SmallModel& small = subject.models()[number];
    for (const SmallModel& other : other_uses(subject, small)) train_other(other, 3, 7);
    for (const SmallModel& wide : wide_uses(subject, small)) train_other(wide, 3, 3);
  }
  if (const std::string text = output.text(); !text.empty())
    fail("a kernel writes \"{}\" to standard output; use the host's log (C-4)", text);
  if (wanted.empty()) skip("the small models of this family use no op with kernels");
  for (const std::string& op : wanted)
    if (!backend.ran().contains(op))
      fail(
          "no small model runs the kernel of op '{}', in float32 or bfloat16: it is not compared "
          "with the lowering",
          op);
}

}  // namespace lamina::conformance
