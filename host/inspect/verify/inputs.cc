#include "inspect/verify/inputs.h"

#include <algorithm>

#include "core/error.h"

namespace lamina::inspect {
namespace {

class Inputs {
 public:
  Inputs(const GoldenCase& c, const decoder::Model& model) : case_(c), model_(model) {}

  void check_rows(const std::string& prefix) const {
    const std::string ids = prefix + "input_ids", labels = prefix + "labels";
    if (!case_.has(ids)) return;
    check_ids(ids, 2);
    check_labels(labels, ids);
    const Shape shape = case_.shape(ids);
    for (const char* name : {"loss", "base.loss", "with_aux.loss"})
      if (case_.has(prefix + name) && !case_.has(labels))
        throw UserError(ExitCode::checkpoint,
                        {case_.golden.path(),
                         fmt::format("has '{}{}' but no '{}', the tokens that the loss counts",
                                     prefix, name, labels),
                         {fmt::format("add '{}', i32{}; docs/verify.md describes cases", labels,
                                      to_string(shape))}});
    if (case_.has(prefix + "segment_ids")) require_shape(prefix + "segment_ids", shape);
    const std::string positions = prefix + "position_ids";
    if (case_.has(positions))
      require_shape(positions, case_.shape(positions).ndim() == 2 ? shape : shape.with_leading(3));
  }

  void check_images() const {
    if (!case_.has("image.embeddings")) return;
    const Shape rows = case_.shape("image.embeddings");
    require("image.embeddings", rows.ndim() == 2 && rows[0] > 0 && rows[1] == model_.hidden_size(),
            fmt::format("[rows, {}]", model_.hidden_size()));
    for (int l = 0; case_.has(fmt::format("image.deepstack.{}", l)); ++l)
      require_shape(fmt::format("image.deepstack.{}", l), rows);
    require_shape("image.position_ids", case_.shape("image.input_ids").with_leading(3));
    if (!case_.has("image.greedy_ids")) return;
    const std::int64_t tokens = case_.shape("image.input_ids")[1];
    check_ids("image.prompt_ids", 1);
    require("image.prompt_ids", case_.shape("image.prompt_ids")[0] <= tokens,
            fmt::format("at most [{}], a row of image.input_ids", tokens));
  }

  void check_greedy(const std::string& prefix) const {
    if (!case_.has(prefix + "greedy_ids")) return;
    if (!case_.has(prefix + "prompt_ids") && case_.info.root().find("prompt_length")) {
      check_ids(prefix + "greedy_ids", 2);
      require(prefix + "greedy_ids", case_.shape(prefix + "greedy_ids")[0] == 1,
              "[1, N], the prompt and its continuation");
    } else {
      check_ids(prefix + "greedy_ids", 1);
      check_ids(prefix + "prompt_ids", 1);
    }
    const auto tokens = std::ssize(read_greedy(case_, prefix).continuation);
    if (case_.has(prefix + "greedy_logits"))
      require_shape(prefix + "greedy_logits", {tokens, model_.vocab_size()});
  }

  void check_batches() const {
    if (!case_.has("batches.input_ids")) return;
    check_ids("batches.input_ids", 4);
    check_labels("batches.labels", "batches.input_ids");
    const std::int64_t steps = case_.shape("batches.input_ids")[0];
    for (const char* name : {"loss", "grad_norm", "lr", "tolerance.loss", "tolerance.grad_norm"})
      require_shape(name, {steps});
  }

  void check_mrope() const {
    if (case_.has("mrope.logits"))
      require_shape("mrope.position_ids", case_.shape("input_ids").with_leading(3));
  }

 private:
  void require(const std::string& name, bool ok, std::string_view expected) const {
    if (!ok)
      user_error(ExitCode::checkpoint, case_.golden.path_of(name), "tensor '{}' is {}; expected {}",
                 name, to_string(case_.shape(name)), expected);
  }
  void require_shape(const std::string& name, const Shape& shape) const {
    require(name, case_.shape(name) == shape, to_string(shape));
  }

  // Checks token ids in `ndim` dims, none of them empty.
  void check_ids(const std::string& name, int ndim) const {
    const Shape shape = case_.shape(name);
    require(name, shape.ndim() == ndim && shape.num_elements() > 0,
            fmt::format("{} dim{}, none of them empty", ndim, ndim == 1 ? "" : "s"));
    check_range(name, false);
  }
  void check_labels(const std::string& name, const std::string& ids) const {
    if (!case_.has(name)) return;
    require_shape(name, case_.shape(ids));
    check_range(name, true);
  }
  void check_range(const std::string& name, bool labels) const {
    const std::vector<std::int32_t> ids = case_.ints(name);
    const auto outside = std::ranges::find_if(ids, [&](std::int32_t id) {
      return id >= model_.vocab_size() || (id < 0 && !labels);  // negative labels do not count
    });
    if (outside != ids.end())
      user_error(ExitCode::checkpoint, case_.golden.path_of(name),
                 "tensor '{}' has the id {} at element {}; ids of this vocabulary are 0 to {}",
                 name, *outside, outside - ids.begin(), model_.vocab_size() - 1);
  }

  const GoldenCase& case_;
  const decoder::Model& model_;
};

}  // namespace

void check_inputs(const GoldenCase& c, const decoder::Model& model) {
  const Inputs inputs(c, model);
  for (const char* prefix : {"", "packed.", "image."}) inputs.check_rows(prefix);
  inputs.check_mrope();
  inputs.check_images();
  for (const char* prefix : {"", "image."}) inputs.check_greedy(prefix);
  inputs.check_batches();
}

program::Rows read_rows(const GoldenCase& c, const std::string& prefix) {
  const Shape shape = c.shape(prefix + "input_ids");
  std::vector<std::int32_t> ids = c.ints(prefix + "input_ids"), labels(ids.size(), -100);
  if (c.has(prefix + "labels")) labels = c.ints(prefix + "labels");
  program::Rows rows = program::rows_of(std::move(ids), labels, shape[0], shape[1]);
  if (c.has(prefix + "segment_ids")) rows.segments = c.ints(prefix + "segment_ids");
  // Positions in time, height and width are separate inputs.
  if (const std::string name = prefix + "position_ids"; c.has(name) && c.shape(name).ndim() == 2)
    rows.positions = c.ints(name);
  return rows;
}

GreedyText read_greedy(const GoldenCase& c, const std::string& prefix) {
  std::vector<std::int32_t> ids = c.ints(prefix + "greedy_ids");
  const JsonValue length = c.info.root().find("prompt_length");
  if (c.has(prefix + "prompt_ids") || !length)
    return {c.ints(prefix + "prompt_ids"), std::move(ids)};
  const std::int64_t count = length.as_int64();
  if (count < 1 || count >= std::ssize(ids))
    length.fail(fmt::format("is {}; '{}greedy_ids' has {} ids, and the prompt must be shorter",
                            count, prefix, ids.size()));
  return {{ids.begin(), ids.begin() + count}, {ids.begin() + count, ids.end()}};
}

}  // namespace lamina::inspect
