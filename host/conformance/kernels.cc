// GRD-3: kernels of custom ops against their lowerings, in training and decoding of small models.
#include <unistd.h>

#include <algorithm>
#include <set>

#include "conformance/capture.h"
#include "conformance/check.h"
#include "conformance/fingerprint.h"
#include "conformance/groups.h"
#include "conformance/kernel_comparison.h"
#include "conformance/rows.h"
#include "conformance/subject.h"
#include "decode/session.h"
#include "ops/custom.h"
#include "registry/custom_ops.h"
#include "train/loop/train_step.h"

namespace lamina::conformance {
namespace {

// Two of them are 514 rows: two blocks and a rest for a kernel with blocks of 256.
constexpr std::int64_t kLongRow = 257;

// A forward and a backward pass, also with several documents in a row.
void train(const ModelCase& c, const decoder::Model& model, DType dtype, const Backend& backend) {
  const std::int64_t tokens = row_tokens(model);
  const bool packs = !model.length_dependent_from();
  std::vector<program::Rows> all = {random_rows(model, 1, 1), random_rows(model, 3, 7)};
  if (has_positions(model, kLongRow)) all.push_back(random_rows(model, 2, kLongRow));
  if (packs)
    all.push_back(
        pack({random_rows(model, 1, tokens / 2, 3), random_rows(model, 1, tokens / 3, 4)}, tokens));
  for (const program::Rows& rows : all) {
    const auto state = c.load_state(model, dtype);
    train::TrainStepOptions options{.shape = {rows.batch, rows.tokens, dtype},
                                    .features = train::all_losses(packs)};
    options.seed = 11;
    train::TrainStep step(model, *state, options, {}, backend);
    const program::Microbatch batch = rows.microbatch();
    step.gradients(std::span(&batch, 1), 3);
  }
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

}  // namespace

void check_kernels(const FamilySubject& subject) {
  const auto& all = subject.family().custom_ops();
  // Ops of a plugin with several families need not belong to this one.
  const bool is_alone = subject.siblings().size() <= 1;
  std::set<std::string> wanted;
  const auto want = [&](const ops::CustomOp& op) {
    if (op.kernel) wanted.insert(op.name);
    if (op.gradient) wanted.insert(op.gradient->name);
  };
  if (std::ranges::none_of(all, [](const auto& o) { return o->op.kernel || o->op.gradient; }))
    skip("the plugin has no kernels");
  for (const auto& custom : all)
    if (is_alone) want(custom->op);
  const ComparingBackend backend(subject.plugin().compute());
  const Capture output(STDOUT_FILENO);
  for (const ModelCase& c : subject.cases()) {
    const decoder::Model model = c.open(true);
    for_each_graph(model.loss_graph({2, 5}, train::all_losses()).graph, [&](const Graph& graph) {
      for (const Node& node : graph.nodes())
        if (ops::is_custom(*node.op)) want(ops::custom_of(*node.op));
    });
    for (const DType dtype : {DType::f32, DType::bf16}) try {
        train(c, model, dtype, backend);
        decode(c, model, dtype, backend);
      } catch (const Failure& found) {
        fail("model '{}', {}: {}", c.name, lamina::name(dtype), found.what());
      }
  }
  if (const std::string text = output.text(); !text.empty())
    fail("a kernel writes \"{}\" to standard output; use the host's log (C-4)", text);
  if (wanted.empty()) skip("this family has no op with kernels");
  for (const std::string& op : wanted)
    if (!backend.ran().contains(op))
      fail(
          "no small model runs the kernel of op '{}', in float32 or bfloat16: it is not compared "
          "with the lowering",
          op);
}

}  // namespace lamina::conformance
